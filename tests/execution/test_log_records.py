"""The standard `logging` in a tool's body becomes its request's log lines (server/utilities/logging)."""

import logging
import textwrap

import pytest

from mcp_app.execution.tool.log_records import protocol_level, text
from tests.execution import driver
from tests.execution.site import Site, stop


@pytest.fixture
def one_slot(embedded_slot: Site) -> Site:
    """A site whose worker has one slot. The engines make no difference for log records."""
    return embedded_slot


def lines(site: Site, code: str, tool: str = "python") -> list[tuple[str, str, str]]:
    """Return the level, logger and text of each log line of a call that runs the code."""
    request_id = site.submit(tool, {"code": textwrap.dedent(code)})
    ended = site.ended(request_id)
    assert ended["status"] == "completed", ended
    events = site.ask(driver.events, request_id)
    return [(data["level"], data["logger"], data["data"]) for kind, data in events if kind == "log"]


@pytest.mark.parametrize(
    ("number", "level"),
    [(1, "debug"), (10, "debug"), (20, "info"), (25, "notice"), (30, "warning"), (40, "error"), (60, "critical")],
)
def test_a_level_of_python_is_the_protocols_level_at_or_below_it(number: int, level: str) -> None:
    assert protocol_level(number) == level


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("no row 3\nDETAIL: secret"), "ValueError: no row 3"),
        (FileNotFoundError(2, "No such file", "/srv/site/keys"), "FileNotFoundError: No such file"),
        (KeyError(), "KeyError: "),
    ],
)
def test_a_logged_exception_is_one_line_without_its_traceback(error: Exception, line: str) -> None:
    record = logging.makeLogRecord({"msg": "row %d", "args": (3,), "exc_info": (type(error), error, None)})
    assert text(record) == f"row 3\n{line}"


def test_records_of_the_tool_and_of_others_reach_its_row_with_level_logger_and_text(one_slot: Site) -> None:
    code = """
        own, other = logging.getLogger("tests.execution.shop"), logging.getLogger("library")
        own.debug("below LOG_LEVEL")
        own.info("read %s", "a.csv")
        other.info("not said by a library that nobody asked")
        other.warning("slow")
    """
    assert lines(one_slot, code) == [
        ("info", "tests.execution.shop", "read a.csv"),
        ("warning", "library", "slow"),
    ]


def test_task_loggers_of_celery_are_heard_once(one_slot: Site) -> None:
    code = """
        from celery.utils.log import get_task_logger
        get_task_logger("tests.of_tasks").warning("said")
    """
    assert lines(one_slot, code) == [("warning", "tests.of_tasks", "said")]


def test_the_machinery_and_loggers_kept_from_propagating_are_not_heard(one_slot: Site) -> None:
    code = """
        import warnings
        logging.getLogger("mcp_app.execution").error("ours")
        logging.getLogger("kombu.connection").error("theirs")
        warnings.warn("with a path")
        private = logging.getLogger("tests.private")
        private.propagate = False
        private.error("kept")
        logging.getLogger("mcp_application").error("heard")
    """
    assert lines(one_slot, code) == [("error", "mcp_application", "heard")]


def test_async_tasks_and_their_threads_are_heard(one_slot: Site) -> None:
    code = """
        logger = logging.getLogger("tests.crowd")
        async def one(n):
            await asyncio.to_thread(logger.info, "thread %d", n)
            logger.info("task %d", n)
        async def main():
            await asyncio.gather(one(1), one(2))
    """
    assert {line[2] for line in lines(one_slot, code, "python_async")} == {"thread 1", "thread 2", "task 1", "task 2"}


def test_a_forked_process_that_logs_does_not_hang_the_call(one_slot: Site) -> None:
    code = """
        pid = os.fork()
        if pid == 0:
            logging.getLogger("tests.fork").warning("of the child")
            os._exit(7)
        answer = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert answer == 7
    """
    assert lines(one_slot, code) == []


def test_a_record_that_cannot_be_written_does_not_fail_the_tool(one_slot: Site) -> None:
    assert lines(one_slot, 'logging.getLogger("tests.bad").warning("%d", "no number")') == []


def test_a_tool_that_logs_without_end_is_interrupted_and_the_next_one_is_heard(one_slot: Site) -> None:
    endless = """
        logger = logging.getLogger("tests.endless")
        open(READY, "w").close()
        while True:
            logger.info("x" * 20_000)
    """
    assert stop(one_slot, endless)["stage"] == "interrupt"
    assert lines(one_slot, 'logging.getLogger("tests.next").info("clear")') == [("info", "tests.next", "clear")]
