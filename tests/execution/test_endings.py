"""However a tool ends, its row ends too."""

import pytest

from tests.execution.site import stop


@pytest.mark.parametrize(
    "code",
    [
        "class Odd(Exception):\n    def __str__(self): raise KeyError('no words')\nraise Odd",
        "def letters():\n    yield 'a'\n    raise KeyError('no more')\nanswer = letters()",
        "raise SystemExit(3)",
        "raise KeyboardInterrupt",
        "class Sly:\n    def __getattribute__(self, name): raise LookupError(name)\nanswer = Sly()",
    ],
    ids=["an exception without words", "a result that breaks off", "exit", "keyboard interrupt", "a hostile result"],
)
def test_a_failure_of_any_kind_is_a_failure_and_not_an_open_row(one_slot, code):
    ended = one_slot.call("python", {"code": code})
    assert ended["status"] == "failed"
    assert ended["result"]["isError"]


def test_a_result_without_end_is_stopped_like_a_body(one_slot):
    endless = """
        def numbers():
            open(READY, "w").close()
            while True:
                yield 1
        answer = numbers()
    """
    assert stop(one_slot, endless)["status"] == "cancelled"


def test_a_partial_result_that_cannot_be_kept_does_not_keep_the_row_open(one_slot):
    code = """
        def letters():
            yield "a"
            raise KeyError("no more")
        ctx.partial_result = letters()
        open(READY, "w").close()
        time.sleep(30)
    """
    assert stop(one_slot, code)["status"] == "cancelled"


@pytest.mark.parametrize(
    ("ending", "kept"),
    [("raise", None), ("raise RuntimeError('in the clean-up')", {"cause": "cancelled", "type": "RuntimeError"})],
    ids=["the stop itself", "an error while it cleaned up"],
)
def test_what_a_stopped_tool_raised_is_kept_where_it_is_more_than_the_stop(one_slot, ending, kept):
    code = f"""
        open(READY, "w").close()
        try:
            while True:
                pass
        except BaseException:
            {ending}
    """
    ended = stop(one_slot, code)
    assert (ended["status"], ended["error"]) == ("cancelled", kept)
