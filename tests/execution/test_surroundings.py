"""A tool's body runs like a view: with middleware, ATOMIC_REQUESTS, the language and the time zone.

On PostgreSQL and Redis both pools are tested, because the site's rows share a database with the requests there. An
open transaction would affect the next call in the same thread.
"""

import textwrap

import pytest

from tests.execution import driver
from tests.execution.site import begin_code

ACCEPTED = {"action": "accept", "content": {"n": 3}}
FORM = {"elicitation": {"form": {}}}
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}}
TOOLS = {"python": "Group.objects.create", "python_async": "await Group.objects.acreate"}
NAP = {"python": "time.sleep(0.01)", "python_async": "await asyncio.sleep(0.01)"}
QUERY = {"python": "slow_query()", "python_async": "await sync_to_async(slow_query)()"}
LAYOUTS = [
    pytest.param(("embedded", "prefork"), id="embedded"),
    pytest.param(("engines", "prefork"), id="engines", marks=pytest.mark.engines),
    pytest.param(("engines", "threads"), id="engines-threads", marks=pytest.mark.engines),
]


@pytest.fixture(scope="module", params=LAYOUTS)
def surrounded(request, opened, tmp_path_factory):
    """A site whose worker has one slot, so that each call runs in the process of the one before."""
    engines, pool = request.param
    folder = tmp_path_factory.mktemp("surrounded")
    with opened(engines, folder, "tests.execution.surrounded_settings") as site:
        site.start_worker(concurrency=1, pool=pool)
        yield site


@pytest.fixture(scope="module", params=[pytest.param("threads", marks=pytest.mark.engines)])
def side_by_side(opened, tmp_path_factory):
    """A site on engines whose worker runs two calls at once in one process."""
    with opened("engines", tmp_path_factory.mktemp("side"), "tests.execution.surrounded_settings") as site:
        site.start_worker(concurrency=2, pool="threads")
        yield site


def source(tool, rest):
    """Return code of a tool that adds a row of the site, named after the request, and continues."""
    imports = """
import asyncio, time
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from mcp_app.tools import ToolError
from tests.execution.tools import slow_query
"""
    body = f"{TOOLS[tool]}(name=f'{{ctx.request.id}} {{time.monotonic_ns()}}')\n{rest}"
    if tool == "python":
        return imports + body
    return f"{imports}async def main():\n{textwrap.indent(body, '    ')}\n    return answer"


def left(site, request_id):
    """Return how many rows a call has left."""
    return site.ask(driver.sql, "default", f"SELECT count(*) FROM auth_group WHERE name LIKE '{request_id}%'")[0][0]


def run(site, tool, rest):
    request_id = site.submit(tool, {"code": source(tool, rest)}, client_capabilities=FORM)
    return request_id, site.ended(request_id)


def text(ended):
    return ended["result"]["content"][0]["text"]


@pytest.mark.parametrize("tool", TOOLS)
def test_a_call_that_returns_is_committed_and_one_that_raises_is_rolled_back(surrounded, tool):
    request_id, ended = run(surrounded, tool, "answer = 'kept'")
    assert (text(ended), left(surrounded, request_id)) == (f"{tool}: kept", 1)
    request_id, ended = run(surrounded, tool, "answer = 1 / 0")
    assert (ended["status"], left(surrounded, request_id)) == ("failed", 0)


@pytest.mark.parametrize("tool", TOOLS)
def test_middleware_answers_for_a_tool_whose_transaction_is_over(surrounded, tool):
    request_id, ended = run(surrounded, tool, "answer = None\nraise ToolError('refused')")
    assert (ended["status"], text(ended)) == ("completed", f"{tool}: refused, 0 left")
    assert left(surrounded, request_id) == 0


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("rest", [NAP, QUERY], ids=["working", "in a query"])
def test_an_interrupt_rolls_back(surrounded, tool, rest):
    code = source(tool, f"open(READY, 'w').close()\nwhile True: {rest[tool]}")
    request_id = begin_code(surrounded, code, tool)
    assert surrounded.cancel(request_id) == "accepted"
    assert surrounded.ended(request_id)["status"] == "cancelled"
    assert left(surrounded, request_id) == 0
    request_id, _ = run(surrounded, tool, "answer = 'kept'")  # the call after it has a transaction of its own
    assert left(surrounded, request_id) == 1


@pytest.mark.parametrize("tool", TOOLS)
def test_what_was_done_once_before_a_question_is_there_after_it(surrounded, tool):
    code = source(tool, f"answer = str(ctx.elicit('n', 'How many?', {NUMBER!r}).content['n'])")
    request_id = surrounded.submit(tool, {"code": code}, client_capabilities=FORM)
    surrounded.ask(driver.asking, request_id)
    assert left(surrounded, request_id) == 1
    surrounded.ask(driver.answer, request_id, {"n": ACCEPTED})
    assert surrounded.ended(request_id)["status"] == "completed"
    assert left(surrounded, request_id) == 2


def test_django_s_decorator_excepts_a_tool(surrounded):
    ended = surrounded.call("by_itself", {})
    assert (ended["status"], left(surrounded, ended["id"])) == ("failed", 1)


def test_a_call_has_its_clients_language_and_the_sites_time_zone_whatever_the_one_before_activated(surrounded):
    german = surrounded.call("surroundings", {}, language="de")["result"]["structuredContent"]
    assert german == {"language": "de", "time_zone": "Europe/Vienna", "yes": "Ja"}
    own = surrounded.call("surroundings", {})["result"]["structuredContent"]
    assert own == {"language": "en", "time_zone": "Europe/Vienna", "yes": "Yes"}


def test_calls_at_once_in_one_process_have_each_their_own_language_and_time_zone(side_by_side, tmp_path):
    folder = str(tmp_path)
    german = side_by_side.submit(
        "surroundings_together", {"folder": folder, "name": "german", "zone": "Asia/Tokyo"}, language="de"
    )
    own = side_by_side.submit("surroundings_together", {"folder": folder, "name": "own", "zone": ""})
    found = [side_by_side.ended(each)["result"]["structuredContent"] for each in (german, own)]
    assert found == [
        {"language": "de", "time_zone": "Asia/Tokyo", "yes": "Ja"},
        {"language": "en", "time_zone": "Europe/Vienna", "yes": "Yes"},
    ]


def test_what_a_tool_raises_lazily_is_said_in_the_clients_language(surrounded):
    ended = surrounded.call("refuses", {}, language="de")
    assert (ended["status"], text(ended)) == ("failed", "Dieses Feld ist zwingend erforderlich.")
