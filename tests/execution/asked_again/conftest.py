"""Tools, and a worker in the test's own process."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.celery_adapter import broker
from mcp_app.testing import worker
from mcp_app.testing.connections import BorrowedConnections
from mcp_app.testing.worker import InProcessWorker
from mcp_app.tools import ToolContext, tool
from tests.auth.own_server import page_headers
from tests.execution.asked_again.calls import ORIGIN, Grant, Ready, ran, revoke


@pytest.fixture(autouse=True)
def _tools() -> Iterator[None]:
    ran.clear()
    with isolated_registries():

        @tool
        def plain() -> None:
            ran.append("plain")

        @tool(scopes=["ink"])
        def refill() -> None:
            ran.append("refill")

        @tool
        def asks(ctx: ToolContext) -> None:
            ctx.elicit("ready", "Ready?", Ready)
            ran.append("asks")

        @tool
        def starts(ctx: ToolContext) -> None:
            revoke()
            ctx.start("plain")

        @tool(endpoints=["staff", "other"])
        def internal() -> None:
            ran.append("internal")

        yield


@pytest.fixture(name="at_work")
def _at_work() -> Iterator[InProcessWorker]:
    here = worker.current()
    here.recorder.lent = BorrowedConnections()
    with broker.replaced_by(here):
        yield here


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada")


@pytest.fixture
def grant(ada: User, settings: Any, configure: Any) -> Grant:
    values = page_headers(ORIGIN)
    scopes = {**values["OAUTH2_PROVIDER"]["SCOPES"], "ink": "Fill in"}
    settings.OAUTH2_PROVIDER = {**values["OAUTH2_PROVIDER"], "SCOPES": scopes}
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # of the client's secret
    configure(**values["MCP"])
    return Grant(ada)
