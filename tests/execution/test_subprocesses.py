"""`ctx.run` keeps the output of a program, and no program outlives its call."""

import sys
import textwrap

import pytest

from mcp_app.catalogue.errors import ToolError
from mcp_app.execution.stopping import processes
from mcp_app.execution.tool import subprocesses
from tests.execution.programs import STUBBORN
from tests.execution.site import eventually, stop


def run(code, *, check=lambda: None, on_line=None, keep=None):
    keep = [] if keep is None else keep
    argv = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocesses.run(argv, cwd=None, env=None, check=check, on_line=on_line, on_partial=keep.append)


def test_output_and_status_are_those_of_the_program():
    lines = []
    done = run("import sys; print('one'); print('two', file=sys.stderr); sys.exit(3)", on_line=lines.append)
    assert (done.returncode, sorted(lines)) == (3, ["one\n", "two\n"])
    assert sorted(done.output.splitlines()) == ["one", "two"]


@pytest.mark.parametrize("ending", ["\\n", "\\r\\n", "\\r"])
def test_every_kind_of_line_end_ends_a_line(ending):
    lines = []
    run(f"import sys; sys.stdout.buffer.write(b'a{ending}b{ending}c')", on_line=lines.append)
    assert lines == ["a\n", "b\n", "c"]


def test_bytes_that_are_no_text_are_replaced():
    assert run(r"import sys; sys.stdout.buffer.write(b'caf\xc3\xa9 \xff')").output == "café \ufffd"


def test_a_flood_without_line_ends_is_bounded():
    longest = []
    done = run("for _ in range(300): print('x' * 100_000, end='')", on_line=lambda line: longest.append(len(line)))
    assert max(longest) <= subprocesses.MAX_LINE_CHARS + subprocesses.READ_BYTES
    assert len(done.output) == subprocesses.MAX_OUTPUT_CHARS
    assert done.truncated


def test_output_of_just_the_bound_is_whole():
    done = run(f"print('x' * {subprocesses.MAX_OUTPUT_CHARS}, end='')")
    assert len(done.output) == subprocesses.MAX_OUTPUT_CHARS
    assert not done.truncated


def test_a_program_that_is_not_there_is_named_and_no_folder_is():
    with pytest.raises(ToolError, match=r"'nothing' .*started.*: No such file") as caught:
        subprocesses.run(
            ["/opt/secret/nothing"], cwd=None, env=None, check=lambda: None, on_line=None, on_partial=print
        )
    assert "secret" not in str(caught.value)


def test_a_program_that_closed_its_output_is_still_looked_after():
    class Enough(BaseException):
        pass

    checks = []

    def check():
        checks.append(1)
        if len(checks) > 4:
            raise Enough

    with pytest.raises(Enough):
        run("import os, time; os.close(1); os.close(2); time.sleep(30)", check=check)


TOOL = f"""
    program = {STUBBORN!r}
    ctx.run([sys.executable, "-c", program], on_line=lambda line: open(READY, "w").close())
"""


@pytest.mark.fault("A9")
@pytest.mark.skipif(sys.platform != "linux", reason="the marker is read from /proc")
@pytest.mark.parametrize("policy", ["cooperative", "interrupt"])
def test_a_cancelled_program_dies_with_all_it_started_and_what_it_printed_is_kept(one_slot, policy):
    ended = stop(one_slot, TOOL, cancel_policy=policy)
    assert ended["status"] == "cancelled"
    assert ended["partial_result"]["content"][0]["text"] == "half\n"
    eventually(lambda: not processes.find(ended["id"]), "the end of what was started")
