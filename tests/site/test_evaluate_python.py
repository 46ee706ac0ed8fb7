"""`evaluate_python`: code of staff users, and loops that only an interrupt or a kill ends."""

from pathlib import Path
from textwrap import dedent

import pytest

from mcp_app.execution.stopping import processes
from mcp_app.states import CancelPolicy
from mcpsite.tools.evaluate_python import MAX_OUTPUT_CHARS, MAX_VALUE_CHARS
from tests.execution.site import eventually
from tests.site.calls import ExampleSite, submit


def test_the_value_of_the_last_expression_and_what_was_printed(example: ExampleSite) -> None:
    code = "import sys\ndef twice(x):\n    return 2 * x\nprint('here')\nprint('there', file=sys.stderr)\ntwice(21)"
    result = example.result("evaluate_python", code=code)
    assert result == {"value": "42", "output": "here\nthere\n", "truncated": False}
    assert example.result("evaluate_python", code="x = 1") == {"value": None, "output": "", "truncated": False}


def test_the_site_is_at_hand(example: ExampleSite) -> None:
    code = "from mcpsite.models import Contact\nContact._meta.label, Contact.objects.filter(pk=-1).exists()"
    assert example.result("evaluate_python", code=code)["value"] == "('mcpsite.Contact', False)"


def test_value_and_output_are_bounded(example: ExampleSite) -> None:
    result = example.result("evaluate_python", code="print('x' * 10**6)\n'y' * 10**6")
    assert (len(result["output"]), len(result["value"])) == (MAX_OUTPUT_CHARS, MAX_VALUE_CHARS)
    assert result["truncated"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def f():\n    1 / 0\nf()", "ZeroDivisionError: division by zero\n  in line 3, <module>\n  in line 2, f"),
        ("print('so far')\nraise SystemExit(3)", "SystemExit: 3\n  in line 2, <module>\nPrinted before:\nso far\n"),
        ("nothing_here", "NameError: name 'nothing_here' is not defined\n  in line 1, <module>"),
    ],
)
def test_an_error_is_told_with_its_lines_and_none_of_the_servers(example: ExampleSite, code: str, said: str) -> None:
    assert example.refusal("evaluate_python", code=code) == said


def test_code_that_is_no_python_is_told_where(example: ExampleSite) -> None:
    said = example.refusal("evaluate_python", code="x = (1,\ny = 2")
    assert said.startswith('File "<code>", line 1')
    assert "SyntaxError" in said


def test_who_is_no_staff_is_refused(example: ExampleSite) -> None:
    create = "from django.contrib.auth.models import User\nUser.objects.get_or_create(username='visitor')[0].pk"
    visitor = example.result("evaluate_python", code=create)["value"]
    said = example.refusal("evaluate_python", user_id=visitor, code="1")
    assert "only staff may call it" in said


LOOPS = {
    "plain": ("while True: pass", {"interrupt", "kill"}),
    "deaf to every exception": (
        "def spin():\n    while True: pass\nwhile True:\n    try: spin()\n    except BaseException: pass",
        {"kill"},
    ),
    "holding the interpreter in C": ("sum(range(10**15))", {"kill"}),
}


@pytest.mark.parametrize("kind", LOOPS)
def test_a_loop_without_end_is_stopped_and_the_next_call_runs(example: ExampleSite, tmp_path: Path, kind: str) -> None:
    loop, stages = LOOPS[kind]
    ready = tmp_path / "ready"
    code = f"import pathlib\nprint('begun')\npathlib.Path({str(ready)!r}).touch()\n{loop}"
    request_id = example.begin("evaluate_python", code=code)
    eventually(ready.exists, "the loop's begin")

    ended = example.stop(request_id)
    assert ended["status"] == "cancelled"
    assert ended["stage"] in stages
    assert processes.is_alive(ended["worker_pid"]) is (ended["stage"] != "kill")
    assert example.result("evaluate_python", code="1 + 1")["value"] == "2"


def test_what_the_code_printed_is_kept_and_what_it_started_dies_with_it(example: ExampleSite, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    code = f"""
        import pathlib, subprocess
        print(subprocess.Popen(["sleep", "600"]).pid)
        pathlib.Path({str(ready)!r}).touch()
        while True: pass
    """
    arguments, policy = {"code": dedent(code)}, CancelPolicy.INTERRUPT
    request_id = example.site.ask(submit, "evaluate_python", arguments, example.staff, cancel_policy=policy)
    eventually(ready.exists, "the loop's begin")
    [child] = eventually(lambda: processes.find(request_id), "its environment, which it has a moment after its number")

    ended = example.stop(request_id)
    assert ended["status"] == "cancelled"
    assert ended["partial_result"]["content"][0]["text"] == f"{child}\n"
    assert not processes.is_alive(child)
