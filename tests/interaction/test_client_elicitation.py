"""2026-07-28 client/elicitation, "Phishing": only the caller gets into the page of a URL
elicitation.

Also "Form Mode Security" and "Safe URL Handling": no form asks for secrets.
"""

from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path

from mcp_app.auth.principal import ANONYMOUS, Principal
from mcp_app.catalogue.errors import InvalidForm, InvalidTool
from mcp_app.catalogue.input.questions import Form, Page
from mcp_app.lifecycle.input import input_rounds, visits
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.models import Request
from mcp_app.states import ProcessRole, Status
from mcp_app.tools import tool
from mcp_app.visits import Visit, visit
from tests.support import rows

pytestmark = [
    pytest.mark.django_db(transaction=True, databases="__all__"),
    pytest.mark.urls("tests.interaction.test_client_elicitation"),
]


@visit
def sign(request: HttpRequest, visit: Visit) -> HttpResponse:
    if request.method == "POST":
        return HttpResponse("done" if visit.done({"name": request.POST["name"]}) else "too late")
    return HttpResponse(visit.message)


urlpatterns = [path("sign/", sign, name="sign")]


@pytest.fixture
def worker() -> UUID:
    identity = Identity(ProcessRole.WORKER)
    processes.beat(identity)
    return identity.boot_id


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada")


@pytest.fixture
def eve() -> User:
    return User.objects.create_user("eve")


def browser(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def sent_to(user: User | None, worker: UUID, key: str = "page") -> tuple[Request, str]:
    """Return a call of this user that asks for the page, and the page's path."""
    caller = ANONYMOUS if user is None else Principal("site", str(user.pk), "editor", user.username, str(user.pk))
    row = rows.running(worker, principal=caller)
    url = f"https://example.com/sign/?visit={visits.token(row.pk, key)}"
    asked = {key: Page("Sign here", url, []).request()}
    assert input_rounds.ask(row.pk, asked, worker=worker) == Status.INPUT_REQUIRED
    return rows.fresh(row), f"/sign/?{urlsplit(url).query}"


def test_the_caller_opens_the_page_and_what_is_done_there_reaches_the_tool(ada: User, worker: UUID) -> None:
    row, page = sent_to(ada, worker)
    assert browser(ada).get(page).content == b"Sign here"
    assert browser(ada).post(page, {"name": "Ada"}).content == b"done"
    assert rows.fresh(row).visited == {"page": {"name": "Ada"}}
    assert rows.answer(row, answers={"page": {"action": "accept"}}).status == Status.QUEUED


def test_a_page_visited_by_somebody_else_shows_and_takes_nothing(ada: User, eve: User, worker: UUID) -> None:
    row, page = sent_to(ada, worker)
    before = rows.everything(row)
    for response in (browser(eve).get(page), browser(eve).post(page, {"name": "Eve"})):
        assert response.status_code == 403
        assert b"Sign here" not in response.content
    assert rows.everything(row) == before


def test_a_visitor_who_is_not_logged_in_is_sent_to_log_in(ada: User, worker: UUID) -> None:
    _, page = sent_to(ada, worker)
    response = Client().get(page)
    assert response.status_code == 302
    assert "next=/sign/" in response["Location"]


def test_an_altered_address_opens_nothing(ada: User, eve: User, worker: UUID) -> None:
    _, page = sent_to(ada, worker)
    other, _ = sent_to(eve, worker, key="other")
    for address in ("", "forged", page.partition("=")[2] + "A", visits.token(uuid4(), "page")):
        assert browser(ada).get("/sign/", {"visit": address}).status_code == 403
    assert browser(eve).get("/sign/", {"visit": visits.token(other.pk, "page")}).status_code == 403


def test_the_page_of_a_call_that_is_over_or_answered_is_closed(ada: User, worker: UUID) -> None:
    row, page = sent_to(ada, worker)
    rows.cancel(row)
    assert browser(ada).get(page).status_code == 403
    row, page = sent_to(ada, worker)
    rows.answer(row, answers={"page": {"action": "decline"}})
    assert browser(ada).post(page, {"name": "Ada"}).status_code == 403
    assert not visits.finish(row.pk, "page", 1)


def test_a_call_without_a_user_lets_nobody_in(ada: User, worker: UUID) -> None:
    _, page = sent_to(None, worker)
    assert browser(ada).get(page).status_code == 403


@pytest.mark.parametrize(
    "field",
    [
        {"title": "Your password"},
        {"title": "API key"},
        {"format": "password"},
        {"description": "Follow https://example.com"},
    ],
)
def test_form_mode_security_no_form_for_secrets_or_links_is_offered_or_sent(field: dict[str, Any]) -> None:
    form = {"type": "object", "properties": {"value": {"type": "string", **field}}}
    with pytest.raises(InvalidTool, match="elicit_url"):
        tool(asks=[form])(_form)
    with pytest.raises(InvalidForm, match="elicit_url"):
        Form("Please fill this in.", form)


def _form() -> None:
    """Ask."""


def test_the_address_holds_nothing_of_its_user(ada: User, worker: UUID) -> None:
    row, page = sent_to(ada, worker)
    question: dict[str, Any] = row.questions["page"]
    assert question["params"]["mode"] == "url"
    assert "ada" not in page
