"""What stands around a tool's body as around a view: middleware, ATOMIC_REQUESTS, the language and the time zone."""

import textwrap
from shutil import copytree

import pytest

from tests.execution import driver
from tests.execution.site import Site, begin_code

ACCEPTED = {"action": "accept", "content": {"n": 3}}
FORM = {"elicitation": {"form": {}}}
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}}
TOOLS = {"python": "Group.objects.create", "python_async": "await Group.objects.acreate"}


@pytest.fixture(scope="module")
def surrounded(migrated, tmp_path_factory):
    data = copytree(migrated, tmp_path_factory.mktemp("surrounded") / "data")
    with Site.opened(data, {}, "tests.execution.surrounded_settings") as site:
        site.start_worker(concurrency=1)
        yield site


def source(tool, rest):
    """Code of a tool that leaves a row of the site's, named by the request, and goes on."""
    imports = (
        "import asyncio, time\nfrom django.contrib.auth.models import Group\nfrom mcp_app.tools import ToolError\n"
    )
    body = f"{TOOLS[tool]}(name=f'{{ctx.request.id}} {{time.monotonic_ns()}}')\n{rest}"
    if tool == "python":
        return imports + body
    return f"{imports}async def main():\n{textwrap.indent(body, '    ')}\n    return answer"


def left(site, request_id):
    """How many rows a call has left."""
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


@pytest.mark.parametrize(
    ("tool", "rest"), [("python", "time.sleep(60)"), ("python_async", "await asyncio.sleep(60)\nanswer = ''")]
)
def test_an_interrupt_rolls_back(surrounded, tool, rest):
    code = source(tool, "open(READY, 'w').close()\n" + rest)
    request_id = begin_code(surrounded, code, tool)
    assert surrounded.cancel(request_id) == "accepted"
    assert surrounded.ended(request_id)["status"] == "cancelled"
    assert left(surrounded, request_id) == 0


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


def test_what_a_tool_raises_lazily_is_said_in_the_clients_language(surrounded):
    ended = surrounded.call("refuses", {}, language="de")
    assert (ended["status"], text(ended)) == ("failed", "Dieses Feld ist zwingend erforderlich.")
