"""The system checks: each says which lines to add."""

import pytest
from celery import Celery, current_app
from django.core.checks import run_checks
from pytest_django import Settings

from mcp_app import checks


def ids() -> list[str]:
    return sorted(message.id for message in run_checks() if (message.id or "").startswith("mcp_app."))


def test_example_site_passes() -> None:
    assert ids() == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"MCP": {"DATABSE": "mcp"}}, "mcp_app.E001"),
        ({"MCP": {"DATABASE": "elsewhere"}}, "mcp_app.E002"),
        ({"MCP": {"DATABASE": "mcp", "LOG_LEVEL": "info"}}, "mcp_app.E006"),
        ({"MCP": {"DATABASE": "mcp"}, "DATABASE_ROUTERS": []}, "mcp_app.E003"),
        ({"MCP": {}, "DATABASE_ROUTERS": []}, "mcp_app.W001"),
        ({"ASGI_APPLICATION": None}, "mcp_app.E005"),
    ],
)
def test_mistake_in_the_settings_is_found(settings: Settings, change: dict[str, object], expected: str) -> None:
    for name, value in change.items():
        setattr(settings, name, value)
    found = [message for message in run_checks() if message.id == expected]
    assert [bool(message.hint) for message in found] == [True]


def test_site_without_celery_is_told_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "current_app", Celery("default", set_as_current=False))
    assert [message.id for message in checks.check_celery()] == ["mcp_app.E004"]


def test_celery_without_results_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current_app.conf, "result_backend", None)
    assert [message.id for message in checks.check_celery()] == ["mcp_app.W002"]
