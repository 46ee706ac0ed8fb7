"""The findings of this app's system checks."""

from django.core.checks import CheckMessage, run_checks


def found(*, deploy: bool = False) -> list[CheckMessage]:
    """Run the checks of this app and return their messages."""
    # This app's checks query no database. Django 6.1's own checks query every database unless `databases` is set.
    messages = run_checks(include_deployment_checks=deploy, databases=[])
    return [message for message in messages if (message.id or "").startswith("mcp_app.")]


def only_hint(expected: str, *, deploy: bool = False) -> str:
    """Return the hint of the only finding, which must have that id."""
    assert [message.id for message in found(deploy=deploy)] == [expected]
    return str(found(deploy=deploy)[0].hint)
