"""What the system checks of this app find."""

from django.core.checks import CheckMessage, run_checks


def found(*, deploy: bool = False) -> list[CheckMessage]:
    """What the checks of this app find."""
    # No check of this app asks a database; Django 6.1's own do, of every one unless told.
    messages = run_checks(include_deployment_checks=deploy, databases=[])
    return [message for message in messages if (message.id or "").startswith("mcp_app.")]


def only_hint(expected: str, *, deploy: bool = False) -> str:
    """The hint of the one thing that is found, which has that id."""
    assert [message.id for message in found(deploy=deploy)] == [expected]
    return str(found(deploy=deploy)[0].hint)
