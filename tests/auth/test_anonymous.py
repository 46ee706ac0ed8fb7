"""Who may call without a credential: secure unless the site says otherwise."""

from typing import Any

import pytest

from mcp_app.auth.anonymous import anonymous, is_allowed
from mcp_app.auth.connection import HeaderFields, HTTPConnection
from mcp_app.auth.principal import ANONYMOUS
from mcp_app.management.serve import AddressRefusedError, check_host
from mcp_app.protocol.errors import UNAUTHORIZED, Rejection

BEYOND = "192.0.2.1"


@pytest.fixture
def site(configure: Any, settings: Any) -> Any:
    """Have a site that says so; DEBUG, and some of `MCP`."""

    def change(*, debug: bool, allow: bool | None = None, authenticator: str | None = None) -> None:
        settings.DEBUG = debug
        configure(ALLOW_ANONYMOUS=allow, AUTHENTICATOR=authenticator)

    return change


def asks(address: str, *fields: tuple[bytes, bytes]) -> bool:
    """Whether who comes from there, with these header fields, is served as the anonymous caller."""
    answer = anonymous(HTTPConnection(HeaderFields(fields), address, "/mcp"))
    if isinstance(answer, Rejection):
        assert answer.code == UNAUTHORIZED
        assert ("www-authenticate", b"Bearer") in [(name.decode(), value) for name, value in answer.headers]
        return False
    assert answer == ANONYMOUS
    return True


@pytest.mark.fault("G3")
@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"])
def test_while_a_site_is_developed_its_own_machine_may_call(site: Any, address: str) -> None:
    site(debug=True)
    assert is_allowed("default")
    assert asks(address)
    assert asks(address, (b"x-other", b"1"))
    site(debug=False)
    assert not is_allowed("default")
    assert not asks(address)


@pytest.mark.fault("G3")
@pytest.mark.parametrize("address", [BEYOND, "10.0.0.1", "::", "2001:db8::1", "::ffff:192.0.2.1", "localhost", ""])
def test_nobody_else_may(site: Any, address: str) -> None:
    site(debug=True)
    assert not asks(address)


@pytest.mark.fault("G3")
@pytest.mark.parametrize("field", [b"Forwarded", b"Via", b"X-Forwarded-For", b"X-Forwarded-Host", b"x-real-ip"])
def test_nor_may_whoever_a_proxy_on_the_machine_speaks_for(site: Any, field: bytes) -> None:
    site(debug=True)
    assert not asks("127.0.0.1", (field, b"127.0.0.1"))


def test_a_site_that_names_an_authenticator_asks_everybody(site: Any) -> None:
    site(debug=True, authenticator="mcp_app.auth.tokens.bearer")
    assert not asks("127.0.0.1")


@pytest.mark.parametrize("debug", [True, False])
def test_the_sites_own_word_counts(site: Any, *, debug: bool) -> None:
    site(debug=debug, allow=True)
    assert asks(BEYOND)
    assert asks(BEYOND, (b"forwarded", b"for=192.0.2.9"))
    site(debug=debug, allow=False)
    assert not asks("127.0.0.1")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_a_host_that_others_reach_is_not_served_on_while_anybody_may_call(site: Any, host: str) -> None:
    for debug, allow in ((True, None), (True, True), (False, True)):
        site(debug=debug, allow=allow)
        with pytest.raises(AddressRefusedError, match=r'MCP\["AUTHENTICATOR"\] = "mcp_app.auth.tokens.bearer"'):
            check_host(host)
        check_host("127.0.0.1")
    for debug, allow, authenticator in (
        *((False, None, None), (True, False, None), (True, None, "mcp_app.auth.tokens.bearer")),
    ):
        site(debug=debug, allow=allow, authenticator=authenticator)
        check_host(host)
