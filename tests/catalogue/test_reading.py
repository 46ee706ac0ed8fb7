"""Resources and prompts: arguments, rights and results."""

import datetime as dt
from typing import Any

import mcp_types
import pytest
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.utils.translation import gettext

from mcp_app.auth.principal import ANONYMOUS, Principal
from mcp_app.catalogue import completion as completing
from mcp_app.catalogue import reads
from mcp_app.catalogue.errors import InvalidArguments, InvalidResult, ResourceNotFound, TooLarge
from mcp_app.catalogue.input.asking import Known
from mcp_app.prompts import prompt
from mcp_app.protocol.revisions import MODERN
from mcp_app.resources import ReadContext, resource

ANN = Principal("https://id.example", "ann", "", "Ann")
BOB = Principal("https://id.example", "bob", "", "Bob")
NOTHING = Known(MODERN, {})


def read(uri: str, principal: Principal = ANONYMOUS) -> dict[str, Any]:
    result = reads.read(uri, principal, NOTHING)
    assert isinstance(result, dict)
    return result


def get(name: str, arguments: dict[str, str], principal: Principal = ANONYMOUS) -> dict[str, Any]:
    result = reads.get_prompt(name, arguments, principal, NOTHING)
    assert isinstance(result, dict)
    return result


def text(uri: str, principal: Principal = ANONYMOUS) -> str:
    [content] = read(uri, principal)["contents"]
    assert content["uri"] == uri
    return str(content["text"])


def test_variables_are_what_their_annotations_say() -> None:
    @resource("log://{day}/{line}")
    def log(day: dt.date, line: int) -> str:
        return f"{day.year} {line + 1}"

    assert text("log://2026-07-28/1") == "2026 2"
    for unfit in ("log://yesterday/1", "log://2026-07-28/one"):
        with pytest.raises(ResourceNotFound):
            read(unfit)


def test_a_resource_goes_before_a_template() -> None:
    resource("notes://{day}")(lambda day: f"of {day}")
    resource("notes://today")(lambda: "today's own")
    assert text("notes://today") == "today's own"
    assert text("notes://tomorrow") == "of tomorrow"


@pytest.mark.parametrize("error", [ResourceNotFound, Http404, PermissionDenied])
def test_none_and_forbidden_look_the_same(error: type[Exception]) -> None:
    @resource("notes://{day}")
    def notes(day: str) -> str:
        raise error("reasons")

    with pytest.raises(ResourceNotFound):
        read("notes://today")


def test_a_visit_says_who_asks_and_for_what() -> None:
    visits: list[ReadContext] = []

    @resource("notes://{day}")
    def notes(visit: ReadContext, day: str) -> str:
        visits.append(visit)
        return day

    @prompt
    async def ask(about: str, visit: ReadContext) -> str:
        visits.append(visit)
        return about

    text("notes://today", ANN)
    get("ask", {"about": "it"}, ANN)
    of_resource, of_prompt = visits
    assert (of_resource.principal, of_resource.uri, dict(of_resource.arguments)) == (
        ANN,
        "notes://today",
        {"day": "today"},
    )
    assert (of_prompt.principal, of_prompt.uri, dict(of_prompt.arguments)) == (ANN, None, {"about": "it"})
    assert of_resource.user is None


def for_ann(visit: ReadContext) -> bool:
    return visit.principal == ANN and visit.arguments.get("day") != "never"


def test_what_is_not_available_is_unknown_everywhere() -> None:
    complete = {"day": lambda value, context: ["today"]}
    resource("notes://{day}", available=for_ann, completions=complete)(lambda day: day)
    resource("notes://now", available=for_ann)(lambda: "now")
    prompt(name="plan", available=for_ann, completions=complete)(lambda day: day)

    def offered(principal: Principal) -> list[int]:
        pages = (reads.resources_page, reads.templates_page, reads.prompts_page)
        return [len(page(None, principal).items) for page in pages]

    def outcomes(principal: Principal) -> list[Any]:
        calls = (
            lambda: text("notes://today", principal),
            lambda: get("plan", {"day": "today"}, principal)["messages"][0]["content"]["text"],
            lambda: completing.complete_template("notes://{day}", "day", "", {}, principal)["completion"]["values"],
            lambda: completing.complete_prompt("plan", "day", "", {}, principal)["completion"]["values"],
        )
        return [_outcome(call) for call in calls]

    assert offered(ANN) == [1, 1, 1]
    assert outcomes(ANN) == ["today", "today", ["today"], ["today"]]
    assert offered(BOB) == [0, 0, 0]
    assert outcomes(BOB) == [ResourceNotFound, InvalidArguments, InvalidArguments, InvalidArguments]
    assert reads.find("notes://today", ANN)
    assert not reads.find("notes://today", BOB)
    assert not reads.find("notes://never", ANN)
    assert _outcome(lambda: get("plan", {"day": "never"}, ANN)) is InvalidArguments


def test_who_may_have_it_may_be_decided_by_awaiting() -> None:
    async def decide(visit: ReadContext) -> bool:
        return visit.principal == ANN

    resource("notes://a", available=decide)(lambda: "a")
    resource("notes://b", available=lambda visit: decide(visit))(lambda: "b")
    assert [len(reads.resources_page(None, principal).items) for principal in (ANN, BOB)] == [2, 0]


def _outcome(call: Any) -> Any:
    try:
        return call()
    except Exception as error:
        return type(error)


def test_async_functions_work() -> None:
    @resource("notes://today")
    async def notes() -> str:
        return "async"

    assert text("notes://today") == "async"


@pytest.mark.parametrize(("anonymous", "scope"), [(True, "public"), (False, "private")])
def test_a_result_is_public_where_anybody_may_ask_and_the_caller_does_not_matter(
    configure, settings, anonymous: bool, scope: str
) -> None:
    configure(ALLOW_ANONYMOUS=anonymous)
    settings.LANGUAGES = [("en", "English")]

    @resource("notes://shared", ttl_ms=60_000)
    def shared() -> str:
        return ""

    @resource("notes://mine")
    def mine(visit: ReadContext) -> str:
        return ""

    resource("notes://some", available=lambda visit: True)(lambda: "")
    resource("notes://secret", cache_scope="private")(lambda: "")
    resource("notes://open", cache_scope="public")(lambda: "")

    def scope_of(name: str) -> str:
        return str(read(f"notes://{name}")["cacheScope"])

    found = [scope_of(name) for name in ("shared", "mine", "some", "secret", "open")]
    assert found == [scope, "private", "private", "private", "public"]
    assert read("notes://shared")["ttlMs"] == 60_000


@pytest.mark.parametrize(("translated", "scope"), [(True, "private"), (False, "public")])
def test_a_result_that_another_language_could_change_is_public_by_its_authors_word_alone(
    configure, settings, translated: bool, scope: str
) -> None:
    configure(ALLOW_ANONYMOUS=True)
    settings.USE_I18N = translated
    settings.LANGUAGES = [("en", "English"), ("de", "German")]
    resource("words://yes")(lambda: gettext("Yes"))
    resource("words://open", cache_scope="public")(lambda: "")

    assert read("words://yes")["cacheScope"] == scope
    assert read("words://open")["cacheScope"] == "public"


def test_too_large_a_resource_is_refused_whole(configure) -> None:
    configure(MAX_RESULT_BYTES=1_000)
    resource("x://{size}")(lambda size: "x" * int(size))
    assert len(text("x://500")) == 500
    with pytest.raises(TooLarge, match="1000 bytes"):
        read("x://1000")


def test_text_that_nobody_can_read_is_replaced() -> None:
    resource("x://a")(lambda: "a\x00\ud800")
    assert text("x://a") == "a\ufffd\ufffd"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, "count .*required"),
        ({"count": "many"}, "count .*integer"),
        ({"count": "1", "other": "x"}, "no argument .*other"),
    ],
)
def test_a_prompts_arguments_are_checked(arguments: dict[str, str], reason: str) -> None:
    @prompt
    def repeat(count: int, word: str = "hey") -> list[str]:
        return [word] * count

    assert len(get("repeat", {"count": "2"})["messages"]) == 2
    with pytest.raises(InvalidArguments, match=reason):
        get("repeat", arguments)


def complete(completion: Any, value: str = "", **context: str) -> Any:
    prompt(name="p", completions={"a": completion})(lambda a, b="": a)
    return completing.complete_prompt("p", "a", value, context, ANN)["completion"]


def test_a_completion_knows_what_was_typed_the_context_and_the_caller() -> None:
    def completion(value: str, context: Any, visit: ReadContext) -> list[str]:
        return [value, context["b"], visit.principal.label]

    assert complete(completion, "ty", b="c") == {"values": ["ty", "c", "Ann"], "total": 3, "hasMore": False}


def test_at_most_a_hundred_values_are_sent() -> None:
    words = [str(number) for number in range(250)]
    assert complete(lambda value, context: words) == {"values": words[:100], "total": 250, "hasMore": True}


def test_an_endless_completion_has_more_and_no_total() -> None:
    def completion(value: str, context: Any) -> Any:
        return map(str, iter(int, 1))

    assert complete(completion) == {"values": ["0"] * 100, "hasMore": True}


def test_an_argument_without_completions_has_none() -> None:
    resource("x://{a}")(lambda a: a)
    for ref in ("x://{a}", "x://1"):
        found = completing.complete_template(ref, "a", "", {}, ANONYMOUS)["completion"]
        assert found == {"values": [], "total": 0, "hasMore": False}
    for ref, argument in (("x://{a}", "b"), ("y://{a}", "a")):
        with pytest.raises(InvalidArguments):
            completing.complete_template(ref, argument, "", {}, ANONYMOUS)


def test_a_templates_members_are_listed_among_the_resources(configure, monkeypatch, caplog) -> None:
    configure(ALLOW_ANONYMOUS=True)

    async def members(visit: ReadContext) -> list[mcp_types.Resource]:
        return [mcp_types.Resource(uri=f"notes://{day}", name=f"{visit.principal.label}'s") for day in "cab"]

    resource("notes://{day}", members=members)(lambda day: day)
    resource("notes://b", name="own")(lambda: "")
    assert reads.resources_scope("default") == "private"
    listed = reads.resources_page(None, ANN).items
    assert [(each["uri"], each["name"]) for each in listed] == [
        ("notes://a", "Ann's"),
        ("notes://b", "own"),
        ("notes://c", "Ann's"),
    ]
    monkeypatch.setattr(reads, "MAX_MEMBERS", 1)
    assert len(reads.resources_page(None, ANN).items) == 2
    [left_out] = caplog.messages
    assert "notes://{day} " in left_out
    assert "more than 1 " in left_out


def test_a_member_of_another_template_is_not_listed() -> None:
    resource("notes://{day}", members=lambda visit: [mcp_types.Resource(uri="other://a", name="a")])(lambda day: day)
    with pytest.raises(InvalidResult, match=r"other://a.* not .*notes://\{day\}"):
        reads.resources_page(None, ANN)


def test_a_member_that_nobody_could_read_is_not_listed() -> None:
    member = mcp_types.Resource(uri="notes://Müller GmbH", name="a")
    resource("notes://{customer}", members=lambda visit: [member])(lambda customer: customer)
    with pytest.raises(InvalidResult, match=r"'notes://Müller GmbH' .*URI"):
        reads.resources_page(None, ANN)


@pytest.mark.parametrize(
    "members",
    [
        {"icons": [mcp_types.Icon(src="javascript:alert(1)")]},
        {"annotations": mcp_types.Annotations(last_modified="yesterday")},
    ],
)
def test_a_member_that_says_what_is_not_so_is_not_listed(members: dict[str, Any]) -> None:
    member = mcp_types.Resource(uri="notes://a", name="a", **members)
    resource("notes://{day}", members=lambda visit: [member])(lambda day: day)
    with pytest.raises(InvalidResult):
        reads.resources_page(None, ANN)
