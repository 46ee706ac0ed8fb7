"""What a user who is asked for their consent is told of the address that they will be sent back to."""

import pytest

from mcp_app.templatetags.mcp_consent import host, is_on_this_machine


@pytest.mark.parametrize(
    ("uri", "shown", "here"),
    [
        ("https://editor.example.org/back", "editor.example.org", False),
        ("https://bank.example.com:443@evil.example:8443/bank.example.com", "evil.example:8443", False),
        ("https://localhost.evil.example/", "localhost.evil.example", False),
        ("http://127.0.0.1:49152/back", "127.0.0.1:49152", True),
        ("http://[::1]:49152/back", "[::1]:49152", True),
        ("http://LOCALHOST/back", "LOCALHOST", True),
        ("org.example.editor:/back", "org.example.editor:", True),
    ],
)
def test_the_host_is_shown_as_it_is_and_a_program_of_the_users_own_machine_is_known(
    uri: str, shown: str, here: bool
) -> None:
    assert (host(uri), is_on_this_machine(uri)) == (shown, here)
