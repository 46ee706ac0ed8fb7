"""`run_command` runs only the site's commands, only inside the uploads folder, and stops them with their call."""

import hashlib
from pathlib import Path

import pytest

from mcpsite.commands import commands
from tests.execution.site import eventually
from tests.site.calls import ExampleSite


@pytest.fixture
def folder(example: ExampleSite) -> Path:
    """A folder of the uploads with two files and a link that leads out."""
    folder = example.site.data / "uploads" / "reports"
    folder.mkdir(exist_ok=True)
    (folder / "one.txt").write_text("alpha\nbeta\n")
    (folder / "two words.txt").write_text("beta; touch harm\n")
    if not (link := folder / "secret").is_symlink():
        link.symlink_to(example.site.data / "secret-key")
    return folder


def output(example: ExampleSite, command: str, **arguments: str | int) -> str:
    result = example.result("run_command", command=command, arguments=arguments)
    assert (result["exit_status"], result["truncated"]) == (0, False), result
    return str(result["output"])


def test_each_command_prints_what_its_program_does(example: ExampleSite, folder: Path) -> None:
    assert "two words.txt" in output(example, "list_files", folder="reports")
    assert output(example, "disk_usage", path="reports").split()[1] == "./reports"
    digest = hashlib.sha256(b"alpha\nbeta\n").hexdigest()
    assert output(example, "checksum", file="reports/one.txt").split() == [digest, "./reports/one.txt"]
    found = output(example, "search", text="beta", path="reports").splitlines()
    assert sorted(found) == ["./reports/one.txt:2:beta", "./reports/two words.txt:1:beta; touch harm"]


def test_a_failing_program_is_told_by_its_status(example: ExampleSite, folder: Path) -> None:
    result = example.result("run_command", command="search", arguments={"text": "nowhere", "path": "reports"})
    assert (result["exit_status"], result["output"]) == (1, "")


def test_the_commands_are_named_in_the_schema() -> None:
    from mcp_app.catalogue.registry import registered_tools

    schema = registered_tools()["run_command"].signature.input_schema
    assert schema["properties"]["command"]["enum"] == list(commands())


INSIDE = "The argument path lies inside the uploads folder."
REFUSED = {
    "an option": ({"path": "--files0-from=x"}, "The argument path does not begin with a dash"),
    "a way out": ({"path": "../.."}, INSIDE),
    "another place": ({"path": "/etc"}, INSIDE),
    "a link out": ({"path": "reports/secret"}, INSIDE),
    "nothing": ({"path": "reports/missing"}, "The argument path is something that exists"),
    "no text": ({"path": "a\0b"}, "The argument path has 1 to 200 characters"),
    "none": ({}, "The command disk_usage takes these arguments: path."),
    "one too many": ({"path": ".", "more": 1}, "The command disk_usage takes these arguments: path."),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_no_argument_of_the_command_is_refused(example: ExampleSite, folder: Path, why: str) -> None:
    arguments, said = REFUSED[why]
    assert example.refusal("run_command", command="disk_usage", arguments=arguments).startswith(said)


def test_a_gap_takes_what_its_type_says(example: ExampleSite, folder: Path) -> None:
    arguments = {"lines": "all", "file": "reports"}
    assert example.refusal("run_command", command="follow", arguments=arguments).startswith("The argument lines is a")
    said = example.refusal("run_command", command="follow", arguments={**arguments, "lines": 1})
    assert said == "The argument file is a file, not a folder."
    assert example.refusal("run_command", command="sh", arguments={}).startswith("There is no command of that name")


def test_a_cancelled_command_dies_and_what_it_printed_is_kept(example: ExampleSite, folder: Path) -> None:
    log = folder / "growing.log"
    log.write_text("first\n")
    request_id = example.begin("run_command", command="follow", arguments={"lines": 5, "file": "reports/growing.log"})
    assert example.await_progress(request_id) == {"progress": 1, "message": "first"}
    with log.open("a") as file:
        file.write("second\n")
    eventually(lambda: len(example.progress(request_id)) == 2, "the second line's progress")

    ended = example.stop(request_id)
    assert ended["status"] == "cancelled"
    assert ended["partial_result"]["content"][0]["text"] == "first\nsecond\n"
