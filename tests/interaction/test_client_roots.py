"""2026-07-28 client/roots: only clients with roots are asked. Deprecated by the specification."""

import pytest

from mcp_app.prompts import ReadContext, prompt
from tests.interaction.answers import answer
from tests.support.asgi_client import META

pytestmark = pytest.mark.usefixtures("_prompts")


ABLE = {META + "clientCapabilities": {"roots": {}}}
ROOT = {"uri": "file:///srv/code", "name": "Code"}


@pytest.fixture
def _prompts() -> None:
    @prompt
    def folders(visit: ReadContext) -> str:
        """Ask for the client's folders."""
        return ", ".join(str(root.uri) for root in visit.roots())


def test_no_client_is_asked_that_did_not_declare_them() -> None:
    refusal = answer("prompts/get", name="folders")
    assert refusal["error"]["code"] == -32021
    assert refusal["error"]["data"] == {"requiredCapabilities": {"roots": {}}}


def test_they_are_asked_for_without_metadata_and_read() -> None:
    asked = answer("prompts/get", meta=ABLE, name="folders")["result"]
    assert asked["inputRequests"] == {"roots": {"method": "roots/list", "params": {}}}
    responses = {"roots": {"roots": [ROOT]}}
    state = asked["requestState"]
    result = answer("prompts/get", meta=ABLE, name="folders", inputResponses=responses, requestState=state)["result"]
    assert result["messages"][0]["content"]["text"] == "file:///srv/code"


def test_what_is_no_list_of_roots_is_refused() -> None:
    state = answer("prompts/get", meta=ABLE, name="folders")["result"]["requestState"]
    for roots in ({}, {"roots": "all"}, {"roots": [{"name": "Code"}]}, []):
        refusal = answer("prompts/get", meta=ABLE, name="folders", inputResponses={"roots": roots}, requestState=state)
        assert refusal["error"]["code"] == -32602
