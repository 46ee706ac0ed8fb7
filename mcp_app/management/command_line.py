"""The sub-commands of `manage.py mcp` and their options."""

import argparse
import re
from typing import Any, Protocol
from uuid import UUID

from django.core.management.base import CommandParser

from mcp_app.auth.tokens import MAX_DAYS
from mcp_app.diagnosis.examination import CHECK_SECONDS, MIN_CHECK_SECONDS
from mcp_app.lifecycle.audit import export as audit_export
from mcp_app.management import audit, installing
from mcp_app.management.serving import worker
from mcp_app.states import Status


class _Options(Protocol):
    """A parser or an option group. `argparse` has no public class for both."""

    def add_argument(self, *names: str, **options: Any) -> argparse.Action: ...


def add_commands(parser: CommandParser) -> None:
    """Add the sub-commands. The sub-command is parsed as `command`, and its action as `action`."""
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    common = _common_options()

    def add(name: str, help_text: str) -> CommandParser:
        added: CommandParser = commands.add_parser(name, parents=[common], help=help_text)
        return added

    install = commands.add_parser("install", help="print, make or undo the edits that add this app to the site")
    install.set_defaults(skip_checks=True)
    installing.add_options(install)
    _add_serve(add("serve", "start the site: web server and worker"))
    _add_stdio(add("stdio", "serve the client that starts this, on standard input and output"))
    _add_worker(add("worker", "run a Celery worker for the tools"))
    rounds = add("supervise", "run supervision: find lost requests and enforce deadlines, until stopped")
    rounds.add_argument("--once", action="store_true", help="one round")
    _add_call(add("call", "call a tool and wait for its result"))
    _add_cancel(add("cancel", "cancel a request, or all open calls of a tool, caller or session"))
    _add_requests(add("requests", "list requests, or show one"))
    _add_json(add("watch", "show requests in flight, live"), "print a JSON object on one line for each change")
    _add_tools(add("tools", "list the tools"))
    _add_doctor(add("doctor", "find problems of the site and how to fix them"))
    _add_token(commands.add_parser("token", help="bearer tokens, for `mcp_app.auth.tokens.bearer`"), common)
    _add_json(add("purge", "delete rows whose retention time has passed"))
    _add_audit(commands.add_parser("audit", help="the audit of cancellations"), common)


def _add_serve(serve: CommandParser) -> None:
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=_port, default=8000, help="0 chooses a free port")
    workers = serve.add_mutually_exclusive_group()
    _add_concurrency(workers)
    _add_pool(serve)
    workers.add_argument(
        "--no-worker", action="store_true", help="start no worker, because workers are started elsewhere"
    )


def _add_stdio(stdio: CommandParser) -> None:
    stdio.add_argument("--user", metavar="USERNAME", help="the user of the site that tools see as the caller")
    stdio.add_argument(
        "--endpoint", metavar="NAME", help='which of MCP["ENDPOINTS"] the client has; default: "default"'
    )
    own = stdio.add_mutually_exclusive_group()
    _add_concurrency(own)
    own.add_argument("--no-worker", action="store_true", help="start no worker, even if none is alive")


def _add_call(call: CommandParser) -> None:
    call.add_argument("tool", help="its name")
    call.add_argument(
        "--arg",
        action="append",
        default=[],
        dest="given",
        metavar="NAME=VALUE",
        help="an argument of the tool, may be repeated; a string as it is, any other value as JSON; "
        "NAME=@FILE reads a file, NAME=- standard input",
    )
    call.add_argument(
        "--args",
        dest="whole",
        metavar="JSON",
        help="all arguments as a JSON object; @FILE reads a file, - standard input",
    )
    call.add_argument("--user", metavar="USERNAME", help="the user of the site that the tool sees as its caller")
    call.add_argument("--endpoint", metavar="NAME", help='which of MCP["ENDPOINTS"] it is at; default: "default"')
    call.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="time limit of the call")
    _add_json(call, "print the whole CallToolResult as JSON")
    own = call.add_mutually_exclusive_group()
    _add_concurrency(own)
    own.add_argument("--no-worker", action="store_true", help="start no worker, even if none is alive")


def _add_requests(listed: CommandParser) -> None:
    listed.add_argument("id", nargs="?", help="show this one, by its id or the beginning of it")
    listed.add_argument("--all", action="store_true", help="include requests that have ended")
    help_text = f"{', '.join(Status.values)}; may be repeated"
    listed.add_argument(
        "--status", action="append", choices=Status.values, default=[], metavar="STATUS", help=help_text
    )
    listed.add_argument("--tool", metavar="NAME")
    listed.add_argument(
        "--principal", metavar="CALLER", help="its name as the admin shows it, or ISSUER,SUBJECT,CLIENT"
    )
    listed.add_argument(
        "--since", type=_age, metavar="AGE", help="submitted within this time, such as 90s, 15m, 2h or 7d"
    )
    listed.add_argument("--limit", type=_positive, default=50, metavar="N", help="list at most N; default 50")
    _add_json(listed)


def _add_tools(listed: CommandParser) -> None:
    help_text = "first update their rows from the code, as `serve` does when it starts"
    listed.add_argument("--sync", action="store_true", help=help_text)
    _add_json(listed)


def _add_json(parser: argparse.ArgumentParser, help_text: str = "print JSON, for programs") -> None:
    parser.add_argument("--json", action="store_true", dest="as_json", help=help_text)


def _add_worker(work: CommandParser) -> None:
    _add_concurrency(work)
    _add_pool(work)
    work.add_argument(
        "--queues", type=_names, help="comma-separated; default: all queues of the tools, including new ones"
    )
    work.add_argument("--parent-pid", type=int, help="end when this process, the parent, is gone")


def _add_cancel(stop: CommandParser) -> None:
    _add_selection(stop.add_mutually_exclusive_group(required=True))
    stop.add_argument("--reason", default="", help="kept in the audit")
    stop.add_argument(
        "--wait",
        type=_seconds,
        nargs="?",
        const=60.0,
        metavar="SECONDS",
        help="wait until it has stopped, for at most SECONDS (60 if not given)",
    )
    _add_json(stop)


def _add_doctor(doctor: CommandParser) -> None:
    doctor.set_defaults(skip_checks=True)  # the doctor reports their findings itself
    _add_json(doctor)
    doctor.add_argument(
        "--timeout",
        type=_check_seconds,
        default=CHECK_SECONDS,
        metavar="SECONDS",
        help="for each check; default %(default)g",
    )


def _common_options() -> CommandParser:
    """Add Django's own options, so that they can also follow the sub-command."""
    common = CommandParser(add_help=False, argument_default=argparse.SUPPRESS)
    for option in ("--settings", "--pythonpath"):
        common.add_argument(option, help=argparse.SUPPRESS)
    common.add_argument("-v", "--verbosity", type=int, choices=range(4), help=argparse.SUPPRESS)
    for option in ("--traceback", "--no-color", "--force-color", "--skip-checks"):
        common.add_argument(option, action="store_true", help=argparse.SUPPRESS)
    return common


def _add_audit(parser: CommandParser, common: CommandParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    verify = actions.add_parser("verify", parents=[common], help="find rows that were changed, deleted or inserted")
    verify.add_argument(
        "--head", type=audit.head, help="a head that an earlier verify printed: it must still be in the audit"
    )
    _add_json(verify)
    export = actions.add_parser("export", parents=[common], help="write all of it to standard output")
    export.add_argument("--format", choices=sorted(audit_export.FORMATS), default="csv")


def _add_selection(selection: _Options) -> None:
    selection.add_argument("id", nargs="?", help="the request's id, or the beginning of it")
    selection.add_argument("--tool", metavar="NAME", help="all open calls of a tool")
    selection.add_argument(
        "--principal",
        metavar="CALLER",
        help="all of a caller: its name as the admin shows it, or ISSUER,SUBJECT,CLIENT",
    )
    selection.add_argument("--session", type=_id, metavar="ID", help="all of a session of an older client")
    selection.add_argument("--children-of", type=_id, metavar="ID", help="what the tool of a request started")
    selection.add_argument("--all", action="store_true", help="everything")


def _add_token(parser: argparse.ArgumentParser, common: CommandParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser("create", parents=[common], help="create a token and show it once")
    create.add_argument("username", help="its user")
    create.add_argument("--name", required=True, help="its purpose, such as the client's name")
    create.add_argument(
        "--scope",
        action="append",
        dest="scopes",
        help="a scope, may be repeated; without any, the token is not limited by scopes",
    )
    create.add_argument("--days", type=_days, help="lifetime in days; by default it does not expire")
    _add_json(actions.add_parser("list", parents=[common], help="list them, without their secrets"))
    revoke = actions.add_parser("revoke", parents=[common], help="revoke a token, at once")
    revoke.add_argument("prefix", help="its prefix, as `token list` shows it, or the whole token")


def _add_concurrency(parser: _Options) -> None:
    default = worker.default_concurrency()
    parser.add_argument(
        "--concurrency", type=_positive, default=default, metavar="N", help=f"tools that run at once; default {default}"
    )


def _add_pool(parser: _Options) -> None:
    help_text = (
        "prefork (default): a process for each call, which can be killed; threads: for many calls that wait; async: "
        "threads, and one event loop in which hundreds of async tools wait"
    )
    parser.add_argument("--pool", choices=tuple(worker.POOLS), default=worker.PREFORK, help=help_text)


def _port(text: str) -> int:
    if not 0 <= (port := _integer(text)) <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is not a port from 0 to 65535")
    return port


def _positive(text: str) -> int:
    if (number := _integer(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return number


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number") from None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return seconds


def _check_seconds(text: str) -> float:
    if (seconds := _seconds(text)) < MIN_CHECK_SECONDS:
        raise argparse.ArgumentTypeError(
            f"workers alone have {MIN_CHECK_SECONDS:g} s to respond; give each check at least as much"
        )
    return seconds


def _days(text: str) -> int:
    if (number := _positive(text)) > MAX_DAYS:
        raise argparse.ArgumentTypeError(f"{text} is more than {MAX_DAYS}, which is ten years")
    return number


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not an id such as {UUID(int=1)}") from None


def _age(text: str) -> float:
    """Parse a number with a unit as seconds."""
    found = re.fullmatch(r"(\d{1,6})([smhd])", text.strip())
    if not found:
        raise argparse.ArgumentTypeError(f"{text} is not a duration: write 90s, 15m, 2h or 7d")
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[found[2]]


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
