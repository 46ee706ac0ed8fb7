from typing import Any

import pytest

from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.inbound import check_connection
from tests.protocol.posts import ABSENT, headers_of

ORIGINS = ("https://app.example.com", "http://app.example.com:8080")


def checked(http_method: str = "POST", *, loopback: bool = False, **fields: Any) -> Rejection | None:
    named = {"host": "mcp.example.com", "content_type": "application/json"} | fields
    return check_connection(
        http_method,
        headers_of({name.replace("_", "-"): value for name, value in named.items()}),
        allowed_hosts=["mcp.example.com", ".sub.example.com", "localhost", "[::1]"],
        allowed_origins=ORIGINS,
        max_body_bytes=1000,
        allow_loopback_origins=loopback,
    )


def status(*args: Any, **kwargs: Any) -> int | None:
    outcome = checked(*args, **kwargs)
    return None if outcome is None else outcome.status


@pytest.mark.parametrize(
    "host",
    [
        "mcp.example.com",
        "MCP.Example.com:8443",
        "mcp.example.com.",
        "sub.example.com",
        "a.b.sub.example.com:1",
        "localhost:3301",
        "[::1]:8000",
    ],
)
def test_an_allowed_host_on_any_port_passes(host: str) -> None:
    assert status(host=host) is None


@pytest.mark.fault("G2")
@pytest.mark.parametrize(
    "host",
    [
        ABSENT,
        "",
        "evil.example.com",
        "evilsub.example.com",
        "mcp.example.com.evil.com",
        "mcp.example.com@evil",
        "127.0.0.1",
        "mcp.example.com:80:80",
        "mcp.example.com\n",
        ["mcp.example.com", "mcp.example.com"],
    ],
)
def test_any_other_host_is_403(host: Any) -> None:
    assert status(host=host) == 403


def test_a_star_allows_every_well_formed_host() -> None:
    for host, expected in (("anything.test", None), ("bad host", 403)):
        outcome = check_connection(
            "POST",
            headers_of({"host": host, "content-type": "application/json"}),
            allowed_hosts=["*"],
            allowed_origins=(),
            max_body_bytes=1,
        )
        assert (outcome and outcome.status) == expected


@pytest.mark.parametrize("origin", [ABSENT, *ORIGINS])
def test_a_configured_origin_or_none_passes(origin: Any) -> None:
    assert status(origin=origin) is None


FOREIGN = [
    "http://evil.example.com",
    "null",
    "",
    "https://app.example.com.evil.com",
    "https://app.example.com:444",
    "http://app.example.com",
    "https://app.example.com/",
    [ORIGINS[0], ORIGINS[0]],
]


@pytest.mark.fault("G1")
@pytest.mark.parametrize("origin", FOREIGN)
@pytest.mark.parametrize("http_method", ["POST", "GET", "DELETE", "OPTIONS"])
def test_any_other_origin_is_403_on_every_method(http_method: str, origin: Any) -> None:
    assert status(http_method, origin=origin, loopback=True) == 403


LOOPBACK = ["http://localhost:3301", "https://localhost", "http://127.0.0.1:1", "http://[::1]:8000"]


@pytest.mark.fault("G1")
@pytest.mark.parametrize("origin", LOOPBACK)
def test_loopback_origins_pass_only_where_they_are_allowed(origin: str) -> None:
    assert status(origin=origin, loopback=True) is None
    assert status(origin=origin) == 403


@pytest.mark.fault("G1")
@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost.evil.com",
        "http://localhost:3301@evil",
        "ftp://localhost",
        "http://127.0.0.1.nip.io",
        "http://localhost:",
        "http://localhost\n",
        "http://evil.example.com",
    ],
)
def test_look_alikes_of_loopback_are_403(origin: str) -> None:
    assert status(origin=origin, loopback=True) == 403


@pytest.mark.parametrize("http_method", ["GET", "DELETE", "OPTIONS", "PUT", "HEAD", "post"])
def test_any_method_but_post_is_405_and_names_post(http_method: str) -> None:
    outcome = checked(http_method, content_type=ABSENT)
    assert outcome is not None
    assert outcome.status == 405
    assert outcome.headers == ((b"allow", b"POST"),)
    assert outcome.bodiless == (http_method == "HEAD")


def test_a_form_post_from_a_web_page_is_415() -> None:
    assert status(content_type="text/plain") == 415


@pytest.mark.parametrize("length", ["1001", "00001001", "9" * 5000])
def test_a_declared_length_beyond_the_limit_is_413(length: str) -> None:
    assert status(content_length=length) == 413


@pytest.mark.parametrize("length", [ABSENT, "0", "1000", "0" * 5000 + "1", "-1", "x", "", "²"])
def test_other_lengths_are_left_to_whoever_counts_the_bytes(length: Any) -> None:
    assert status(content_length=length) is None


def test_the_ladder_stops_at_its_first_failed_rung() -> None:
    assert status("GET", host="evil", origin="null") == 403
    assert status("GET", content_type="text/plain") == 405
    assert status(content_type="text/plain", content_length="9999") == 415
