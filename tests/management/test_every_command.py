"""Rules for every `mcp` command: help, wrong arguments, and no tables, database or reader of its output."""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest
from django.core.management import CommandError
from django.db import InterfaceError, OperationalError

from mcp_app.management import command_line
from mcp_app.management.commands.mcp import Command
from mcp_app.management.interruptions import handle_interruptions
from tests.management.conftest import ROOT, WAIT_SECONDS, environment, manage

AN_ID = str(UUID(int=1))
IN_NEED_OF_TABLES = {
    "worker": ["worker"],
    "supervise": ["supervise", "--once"],
    "cancel": ["cancel", AN_ID],
    "requests": ["requests"],
    "watch": ["watch"],
    "tools": ["tools"],
    "token": ["token", "list"],
    "audit": ["audit", "verify"],
    "purge": ["purge"],
}
MAKES_THEM = {"serve", "stdio", "call"}
LOOKS_FOR_THEM = {"doctor"}
NEEDS_NONE = {"install"}


def parsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the sub-commands of a parser, by name."""
    found = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(found[0].choices) if found else {}


def commands() -> dict[str, argparse.ArgumentParser]:
    return parsers(Command().create_parser("manage.py", "mcp"))


def run(*words: str) -> None:
    """Run a command in this process, as from the shell."""
    Command().run_from_argv(["manage.py", "mcp", *words])


def every_command() -> list[str]:
    """Return each command with its actions, as it is typed."""
    return [
        " ".join((name, *action))
        for name, parser in commands().items()
        for action in [(), *((action,) for action in parsers(parser))]
    ]


def test_every_command_is_in_the_table_of_the_page() -> None:
    page = (ROOT / "docs" / "reference/command-line.md").read_text()
    table = page.partition("| command | |")[2].partition("\n\n")[0]
    named = {line.split("`")[1].split()[0] for line in table.splitlines() if "`" in line}
    assert named == set(commands())


def test_every_command_is_tried_without_tables_or_makes_them() -> None:
    assert set(commands()) == {*IN_NEED_OF_TABLES, *MAKES_THEM, *LOOKS_FOR_THEM, *NEEDS_NONE}


@pytest.mark.parametrize("command", every_command())
def test_every_command_tells_its_options_within_80_columns(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        run(*command.split(), "--help")
    said = capsys.readouterr().out
    assert ended.value.code == 0
    assert said.startswith("usage: manage.py mcp")
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        ("", ("required: COMMAND",)),
        ("frob", ("invalid choice: 'frob'",)),
        ("serve --port x", ("argument --port: x ", "whole number")),
        ("serve --port 70000", ("argument --port: 70000 ", "0 to 65535")),
        ("serve --concurrency 0", ("argument --concurrency: 0 ", "1 or more")),
        ("serve --no-worker --concurrency 2", ("not allowed with argument",)),
        ("stdio --frob", ("unrecognized arguments: --frob",)),
        ("worker --pool gevent", ("invalid choice: 'gevent'",)),
        ("supervise often", ("unrecognized arguments: often",)),
        ("call", ("required: tool",)),
        ("call roman --timeout soon", ("argument --timeout: soon ", "seconds above 0")),
        ("cancel --all --tool x", ("not allowed with argument",)),
        ("cancel --session x", ("argument --session: x ", AN_ID)),
        ("cancel --wait x", ("argument --wait: x ", "seconds above 0")),
        ("requests --since soon", ("argument --since: soon ", "90s", "15m", "2h", "7d")),
        ("requests --limit many", ("argument --limit: many ", "whole number")),
        ("requests --status ended", ("invalid choice: 'ended'",)),
        ("watch closely", ("unrecognized arguments: closely",)),
        ("tools --frob", ("unrecognized arguments: --frob",)),
        ("token", ("required: ACTION",)),
        ("token create ada", ("required: --name",)),
        ("token create ada --name x --days 0", ("argument --days: 0 ", "1 or more")),
        ("audit verify --head x", ("argument --head: x ", "audit verify")),
        ("audit export --format xml", ("invalid choice: 'xml'",)),
        ("purge --days 3", ("unrecognized arguments: --days 3",)),
        ("doctor --timeout 0", ("argument --timeout: 0 ", "seconds above 0")),
    ],
)
def test_what_a_command_does_not_know_is_told_in_a_sentence_with_status_2(
    words: str, facts: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(*words.split())
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("usage: manage.py mcp")
    told = said.partition(" error: ")[2]
    assert all(fact in told for fact in facts), told


def test_no_argument_is_refused_by_the_name_of_a_function() -> None:
    """If a type function raises ValueError, argparse names the function, as in `invalid _port value`."""
    for name in ("_port", "_positive", "_seconds", "_id", "_age"):
        with pytest.raises(argparse.ArgumentTypeError, match=r"^x "):
            getattr(command_line, name)("x")


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_a_database_that_goes_away_meanwhile_is_told_in_a_sentence(error: type[Exception]) -> None:
    with (
        pytest.raises(CommandError, match=r"^.*\bdatabase\b.*: gone; is it there\?$"),
        handle_interruptions(),
    ):
        raise error("gone;\n\tis it there?\n")


@pytest.mark.acceptance
@pytest.mark.parametrize("name", IN_NEED_OF_TABLES)
def test_where_tables_are_missing_it_says_what_to_run(tmp_path: Path, name: str) -> None:
    done = manage(tmp_path / "data", "mcp", *IN_NEED_OF_TABLES[name])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("CommandError: ")
    assert "python manage.py migrate --database mcp" in done.stderr


@pytest.mark.acceptance
@pytest.mark.parametrize("name", [*IN_NEED_OF_TABLES, "call", "serve"])
def test_where_the_database_cannot_be_opened_it_says_so(tmp_path: Path, name: str) -> None:
    data = tmp_path / "data"
    (data / "mcp.sqlite3").mkdir(parents=True)
    words = {**IN_NEED_OF_TABLES, "call": ["call", "roman", "--arg", "number=4"], "serve": ["serve", "--port=0"]}[name]
    done = manage(data, "mcp", *words)
    assert done.returncode == 1
    assert re.search("CommandError: .*'mcp'.*: unable to open database file", done.stderr)
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.acceptance
@pytest.mark.parametrize(
    "command", ["tools", "requests --all", "token list", "audit verify", "purge --json", "doctor", "cancel --all"]
)
def test_where_nobody_reads_on_it_ends_in_silence(data: Path, command: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "manage.py", "mcp", *command.split()],
        cwd=ROOT,
        env=environment(data),
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=WAIT_SECONDS,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")
