"""Questions and their answers (2026-07-28 client/elicitation, client/sampling, client/roots)."""

import mcp_types
import pytest
from pydantic import BaseModel, field_validator

from mcp_app.catalogue.errors import InvalidForm, MalformedAnswer, UnfitAnswer
from mcp_app.catalogue.input import questions
from mcp_app.catalogue.input.questions import Answer, Form, Link, Roots, Sampling


class Person(BaseModel):
    name: str
    age: int = 0

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name == "Nobody":
            raise ValueError("Nobody is nobody")
        return name


FORM = Form("Who are you?", Person)
SAID = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"}


@pytest.mark.parametrize("question", [FORM, Link("Sign", "https://example.com/sign"), Sampling("Hi", max_tokens=9)])
def test_a_question_is_an_input_request_of_the_protocol(question):
    asked = mcp_types.InputRequiredResult.model_validate({"inputRequests": {"key": question.request()}})
    assert asked.input_requests is not None
    assert mcp_types.ClientCapabilities.model_validate(question.capability)


def test_an_accepted_form_is_an_object_of_its_model():
    answer = FORM.read({"action": "accept", "content": {"name": "Ada", "age": 36.0}})
    assert answer == Answer("accept", Person(name="Ada", age=36))
    assert answer.accepted


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_refusal_has_no_content_whatever_came_with_it(action):
    answer = FORM.read({"action": action, "content": {"name": "Ada"}})
    assert (answer.action, answer.content, answer.accepted) == (action, None, False)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, 'must have "name"'),
        ({"name": 1}, "name: .*string"),
        ({"name": "Ada", "age": "36"}, "age: .*integer"),
        ({"name": "Nobody"}, "name: .*Nobody is nobody"),
    ],
    ids=str,
)
def test_content_that_does_not_fit_is_told_apart_in_words(content, words):
    with pytest.raises(UnfitAnswer, match=words):
        FORM.read({"action": "accept", "content": content})


@pytest.mark.parametrize("answer", [None, 1, "accept", [], {}, {"action": "yes"}, {"action": "accept", "content": 1}])
def test_what_is_no_result_is_malformed(answer):
    for question in (FORM, Link("Sign", "https://example.com/sign"), Sampling("Hi", max_tokens=9), Roots()):
        with pytest.raises(MalformedAnswer):
            question.read(answer)


def test_the_model_s_and_the_client_s_words_are_the_protocol_s_objects():
    assert Sampling("Capital?", max_tokens=9).read(SAID).content.text == "Paris"
    [root] = Roots().read({"roots": [{"uri": "file:///home/ada"}]})
    assert str(root.uri) == "file:///home/ada"
    assert Roots().request() == {"method": "roots/list", "params": {}}


def test_asking_again_says_what_did_not_fit_last_time_only():
    first = questions.again(FORM.request(), "the first problem")
    second = questions.again(first, "the second problem")
    question, reason = second["params"]["message"].split("\n\n")
    assert question == "Who are you?"
    assert "the second problem" in reason
    assert "the first problem" not in reason


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "https:///path",
        "https://ada:secret@example.com/",
        "javascript:alert(1)",
        "/sign",
        "https://example.com/a b",
        "http://localhost/",
    ],
)
def test_a_link_is_https_and_carries_nobody_s_name(url, settings):
    settings.DEBUG = False
    with pytest.raises(InvalidForm):
        Link("Sign", url)


def test_a_debugging_site_may_link_to_itself(settings):
    settings.DEBUG = True
    assert Link("Sign", "http://localhost:8000/sign").request()["params"]["url"] == "http://localhost:8000/sign"
