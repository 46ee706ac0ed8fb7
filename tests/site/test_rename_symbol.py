"""`rename_symbol` renames in all files or in none."""

import pytest

from mcp_app.tools import ToolError
from mcpsite.tools import replacing
from tests.execution import driver
from tests.site.folders import contents, held, needs_leases

LATIN = "# -*- coding: latin-1 -*-\r\nold = 'é old'  # old\r\nprint(f'{old} old')\r\n".encode("latin-1")
FILES = {f"m{number:02}.py": "def f(old):\n    return old\n" for number in range(30)}
RENAMED = b"def f(new):\n    return new\n"


def test_names_are_renamed_and_all_else_stays(example, project):
    folder = project(
        {"pkg/a.py": 'def old(): "old"\n', "b.py": "from pkg.a import old\nolder = old()\n", "c.txt": "old"}
    )
    (folder / "latin.py").write_bytes(LATIN)
    (folder / "b.py").chmod(0o755)
    done = example.result("rename_symbol", project=folder.name, old="old", new="new")
    assert (done["applied"], done["files_renamed"], done["occurrences"]) == (True, 3, 5)
    assert {name: data for name, (_, data) in contents(folder).items() if data} == {
        "pkg/a.py": b'def new(): "old"\n',
        "b.py": b"from pkg.a import new\nolder = new()\n",
        "c.txt": b"old",
        "latin.py": "# -*- coding: latin-1 -*-\r\nnew = 'é old'  # old\r\nprint(f'{new} old')\r\n".encode("latin-1"),
    }
    assert (folder / "b.py").stat().st_mode & 0o777 == 0o755


def test_a_dry_run_says_what_would_be_renamed(example, project):
    folder = project(FILES)
    before = contents(folder)
    done = example.result("rename_symbol", project=folder.name, old="old", new="new", dry_run=True)
    assert (done["applied"], done["files_renamed"], done["occurrences"]) == (False, 30, 60)
    assert done["files"][0] == {"file": "m00.py", "occurrences": 2}
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("old", "class", "'class' is not a Python identifier"),
        ("old.x", "new", "'old.x' is not a Python identifier"),
        ("old", "old", "are the same"),
        ("old", "taken", "z.py:1 uses the name 'taken' already"),
        ("broken", "new", "y.py cannot be read"),
        ("old", "неу", "latin.py cannot be read or written as Python"),
    ],
)
def test_what_cannot_be_renamed_whole_is_left_as_it_was(example, project, old, new, said):
    folder = project({"a.py": "old = 1\n", "y.py": "broken = (\n", "z.py": "taken = 2\n"})
    (folder / "latin.py").write_bytes(LATIN)
    before = contents(folder)
    assert said in example.refusal("rename_symbol", project=folder.name, old=old, new=new)
    assert contents(folder) == before


def test_a_link_that_leads_out_is_refused(example, project, tmp_path):
    (tmp_path / "outside.py").write_text("old = 1\n")
    folder = project({"a.py": "old = 1\n"})
    (folder / "link.py").symlink_to(tmp_path / "outside.py")
    assert "link.py leads out" in example.refusal("rename_symbol", project=folder.name, old="old", new="new")
    assert (folder / "a.py").read_text() == "old = 1\n"
    assert (tmp_path / "outside.py").read_text() == "old = 1\n"


@pytest.mark.parametrize("what", ["a draft is gone", "somebody else changed b"])
def test_a_failure_midway_puts_all_back(tmp_path, what):
    for name in "abc":
        (tmp_path / name).write_bytes(b"before")

    def replace() -> None:
        with replacing.staging(tmp_path) as place:
            staged = [replacing.stage(place, tmp_path / name, b"before", b"after") for name in "abc"]
            if what == "a draft is gone":
                staged[1].draft.unlink()
            else:
                (tmp_path / "b").write_bytes(b"theirs")
            replacing.replace_all(staged, lambda number: None)

    with pytest.raises(ToolError, match="all files are as they were"):
        replace()
    left = {name: data for name, (_, data) in contents(tmp_path).items()}
    assert left == {"a": b"before", "b": b"before" if what == "a draft is gone" else b"theirs", "c": b"before"}


def test_originals_that_cannot_be_put_back_are_kept(tmp_path):
    (tmp_path / "a").write_bytes(b"before")

    def replace() -> None:
        with replacing.staging(tmp_path) as place:
            staged = [replacing.stage(place, tmp_path / "a", b"before", b"after")]

            def fail(number: int) -> None:
                (tmp_path / "a").unlink()
                (tmp_path / "a").mkdir()
                raise OSError

            replacing.replace_all(staged, fail)

    with pytest.raises(replacing.NotRestoredError) as caught:
        replace()
    (kept,) = tmp_path.glob(".staged-*/*.original")
    assert kept.read_bytes() == b"before"
    assert kept.parent.name in str(caught.value)


def test_one_at_a_time_changes_a_project(tmp_path):
    with (
        replacing.alone(tmp_path),
        pytest.raises(ToolError, match="Another call is changing this project"),
        replacing.alone(tmp_path),
    ):
        pytest.fail("two at a time")
    with replacing.alone(tmp_path):
        pass


@needs_leases
def test_cancelled_before_the_files_are_replaced_it_changes_nothing(example, project):
    folder = project(FILES)
    before = contents(folder)
    with held(folder / "m20.py") as file:
        request_id = example.begin("rename_symbol", project=folder.name, old="old", new="new")
        file.await_opening()
        example.cancel(request_id)
        file.release()
        ended = example.site.ended(request_id)
    assert (ended["status"], ended["stage"]) == ("cancelled", "cooperative")
    assert contents(folder) == before


@needs_leases
def test_cancelled_while_the_files_are_replaced_it_changes_everything(example, project):
    folder = project(FILES)
    with held(folder / "m29.py") as last_read:
        request_id = example.begin("rename_symbol", project=folder.name, old="old", new="new")
        last_read.await_opening()
        with held(folder / "m15.py") as half_way:
            last_read.release()
            half_way.await_opening()
            assert (folder / "m00.py").read_bytes() == RENAMED
            assert (folder / "m20.py").read_bytes() == FILES["m20.py"].encode()
            example.cancel(request_id)
    ended = example.site.ended(request_id)
    assert {name: data for name, (_, data) in contents(folder).items()} == dict.fromkeys(FILES, RENAMED)
    assert ended["status"] == "completed"
    assert ended["result"]["structuredContent"]["files_renamed"] == 30
    (attempt,) = example.site.ask(driver.attempts, request_id)
    assert attempt["outcome"] == "too_late"
