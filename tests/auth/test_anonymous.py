"""Calls without a credential: rejected unless the site allows them."""

from typing import Any

import pytest

from mcp_app.auth.authentication import (
    HeaderFields,
    HTTPConnection,
    allows_anonymous,
    authenticate_anonymous,
    is_public,
    network_of,
)
from mcp_app.auth.principal import ANONYMOUS, Principal
from mcp_app.management.serving.serve import AddressRefusedError, check_host
from mcp_app.protocol.errors import UNAUTHORIZED, Rejection

BEYOND = "192.0.2.1"


@pytest.fixture
def site(configure: Any, settings: Any) -> Any:
    """Configure the site with DEBUG and some of `MCP`."""

    def change(*, debug: bool, allow: bool | str | None = None, authenticator: str | None = None) -> None:
        settings.DEBUG = debug
        configure(ALLOW_ANONYMOUS=allow, AUTHENTICATOR=authenticator)

    return change


def asks(address: str, *fields: tuple[bytes, bytes]) -> bool:
    """Return whether a request from that address, with these header fields, is served anonymously."""
    answer = authenticate_anonymous(HTTPConnection(HeaderFields(fields), address, "/mcp"))
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
    assert allows_anonymous("default")
    assert asks(address)
    assert asks(address, (b"x-other", b"1"))
    site(debug=False)
    assert not allows_anonymous("default")
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


@pytest.mark.parametrize("debug", [True, False])
@pytest.mark.parametrize("authenticator", [None, "mcp_app.auth.tokens.bearer"])
def test_a_site_may_serve_its_own_machine_beside_those_who_say_who_they_are(
    site: Any, authenticator: str | None, *, debug: bool
) -> None:
    site(debug=debug, allow="local", authenticator=authenticator)
    assert allows_anonymous("default")
    assert not is_public("default")
    assert asks("127.0.0.1")
    assert not asks("127.0.0.1", (b"forwarded", b"for=192.0.2.9"))
    assert not asks(BEYOND)


def test_a_word_that_means_nothing_serves_nobody(site: Any) -> None:
    site(debug=True, allow="false")
    assert not allows_anonymous("default")
    assert not asks("127.0.0.1")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_a_host_that_others_reach_is_not_served_on_while_anybody_may_call(site: Any, host: str) -> None:
    for debug, allow in ((True, None), (True, True), (False, True), (False, "local")):
        site(debug=debug, allow=allow)
        with pytest.raises(AddressRefusedError, match=r'MCP\["AUTHENTICATOR"\] = "mcp_app.auth.tokens.bearer"'):
            check_host(host)
        check_host("127.0.0.1")
    for debug, allow, authenticator in (
        *((False, None, None), (True, False, None), (True, None, "mcp_app.auth.tokens.bearer")),
    ):
        site(debug=debug, allow=allow, authenticator=authenticator)
        check_host(host)


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("2001:db8:1:3:3:4:5:6", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("/run/" + "x" * 100, "/run/" + "x" * 59),
    ],
)
def test_an_anonymous_caller_is_counted_by_the_network_that_one_subscriber_has(
    site: Any, address: str, network: str
) -> None:
    site(debug=False, allow=True)
    assert network_of(address) == network
    answer = authenticate_anonymous(HTTPConnection(HeaderFields(()), address, "/mcp"))
    assert isinstance(answer, Principal)
    assert answer.network == network
    assert answer == ANONYMOUS  # their rows are found from any network
