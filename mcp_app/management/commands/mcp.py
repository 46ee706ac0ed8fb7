"""`manage.py mcp …`: the site's command line for MCP. Parses and prints; the work is in `mcp_app.management`."""

import argparse
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error as DatabaseError

from mcp_app.catalogue.registry import registered_tools
from mcp_app.lifecycle import audit_export, purging
from mcp_app.management import audit, cancel, preparation, worker
from mcp_app.models import Tool


class Command(BaseCommand):
    help = "Serve MCP, run its worker, cancel requests, list tools, verify and export the audit, purge."

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
        common = _common_options()

        serve = commands.add_parser("serve", parents=[common], help="start the site: web server and worker")
        serve.add_argument("--host", default="127.0.0.1")
        serve.add_argument("--port", type=_port, default=8000, help="0 takes a free one")
        workers = serve.add_mutually_exclusive_group()
        _add_concurrency(workers)
        workers.add_argument("--no-worker", action="store_true", help="workers are started elsewhere")

        stdio = commands.add_parser(
            "stdio", parents=[common], help="serve the client that starts this, on standard input and output"
        )
        stdio.add_argument("--user", metavar="USERNAME", help="the user of the site that tools see as the caller")
        own = stdio.add_mutually_exclusive_group()
        _add_concurrency(own)
        own.add_argument("--no-worker", action="store_true", help="start none, even if none is alive")

        work = commands.add_parser("worker", parents=[common], help="run a Celery worker for the tools")
        _add_concurrency(work)
        work.add_argument(
            "--queues", type=_names, help="comma-separated; default: all of the tools', new ones included"
        )
        work.add_argument("--parent-pid", type=int, help="end when this process, the parent, is gone")

        stop = commands.add_parser("cancel", parents=[common], help="cancel a request")
        stop.add_argument("id", help="the request's id, as the admin shows it")
        stop.add_argument("--reason", default="", help="kept in the audit")
        stop.add_argument(
            "--wait", type=float, nargs="?", const=60.0, metavar="SECONDS", help="until it has stopped; default 60"
        )

        commands.add_parser("tools", parents=[common], help="list the tools")
        commands.add_parser("purge", parents=[common], help="delete what was kept for as long as the settings say")
        _add_audit(commands.add_parser("audit", help="the audit of cancellations"), common)

    def handle(self, *args: Any, **options: Any) -> None:
        {
            "serve": self._serve,
            "stdio": self._stdio,
            "worker": self._worker,
            "cancel": self._cancel,
            "tools": self._tools,
            "audit": self._audit,
            "purge": self._purge,
        }[options["command"]](**options)

    def _serve(self, **options: Any) -> None:
        # Not for the other commands: it loads a web server, and with it an event loop.
        from mcp_app.embedded.server import ListenError
        from mcp_app.management.serve import AddressRefusedError, Options, serve

        concurrency = None if options["no_worker"] else options["concurrency"]
        try:
            serve(Options(options["host"], options["port"], concurrency), self._say)
        except ListenError as error:
            raise CommandError(f"{error}. Stop what uses it, or choose another with --port.") from error
        except (AddressRefusedError, preparation.NotPreparedError) as error:
            raise CommandError(str(error)) from error

    def _stdio(self, **options: Any) -> None:
        from mcp_app.transport.stdio import streams

        claimed = streams.claim()
        # After the claim, in case it prints; and not for the other commands: it loads an event loop.
        from mcp_app.management.stdio import Options, serve

        concurrency = None if options["no_worker"] else options["concurrency"]
        if not serve(Options(concurrency, options["user"]), claimed, self._say_aside):
            raise CommandError("The site could not serve; see above.")

    def _worker(self, **options: Any) -> None:
        _require_tables()
        status = worker.run(
            concurrency=options["concurrency"],
            queues=options["queues"] or None,
            parent_pid=options["parent_pid"],
        )
        raise SystemExit(status)

    def _cancel(self, **options: Any) -> None:
        _require_tables()
        try:
            outcome = cancel.cancel(options["id"], options["reason"])
        except DatabaseError as error:
            raise CommandError(f"{options['id']}: not cancelled, try again: {error}") from error
        if outcome not in cancel.IN_FORCE:
            raise CommandError(f"{options['id']}: {cancel.describe(outcome)}")
        self._say(f"{options['id']}: {cancel.describe(outcome)}")
        if options["wait"] is not None:
            row = cancel.await_end(UUID(options["id"]), options["wait"])
            if row is None:
                raise CommandError(f"{options['id']}: not stopped within {options['wait']:g} s")
            self._say(f"{options['id']}: {cancel.describe_end(row)}")

    def _tools(self, **options: Any) -> None:
        _require_tables()
        rows = Tool.objects.in_bulk()
        names = sorted(rows.keys() | registered_tools().keys())
        width = max((len(name) for name in names), default=0)
        for name in names:
            self._say(f"{name:<{width}}  {_state(rows.get(name), registered=name in registered_tools())}")
        if not names:
            self._say("No tools. Decorate functions with @tool in an installed app's mcp_tools.py.")

    def _audit(self, **options: Any) -> None:
        _require_tables()
        if options["action"] == "export":
            if reconfigure := getattr(self.stdout, "reconfigure", None):
                reconfigure(encoding="utf-8", newline="")
            audit.export(options["format"], self._say)
        elif found := audit.verify(options["head"] or "", self._say):
            raise CommandError(f"The audit is not as it was written: findings: {found}")

    def _purge(self, **options: Any) -> None:
        _require_tables()
        requests, attempts = purging.purge_requests(), purging.purge_audit()
        self._say(f"{requests} requests and {attempts} attempts to cancel deleted.")

    def _say_aside(self, text: str) -> None:
        self.stderr.write(text)
        self.stderr.flush()

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def _state(row: Tool | None, *, registered: bool) -> str:
    if not registered:
        return "code went away"
    if row is None:
        return "new: enabled at the next start"
    return "enabled" if row.enabled else "disabled"


def _require_tables() -> None:
    try:
        preparation.require_tables()
    except preparation.NotPreparedError as error:
        raise CommandError(str(error)) from error


def _common_options() -> CommandParser:
    """Django's own options, so that they may also stand after the sub-command."""
    common = CommandParser(add_help=False, argument_default=argparse.SUPPRESS)
    for option in ("--settings", "--pythonpath"):
        common.add_argument(option, help=argparse.SUPPRESS)
    common.add_argument("-v", "--verbosity", type=int, choices=range(4), help=argparse.SUPPRESS)
    for option in ("--traceback", "--no-color", "--force-color", "--skip-checks"):
        common.add_argument(option, action="store_true", help=argparse.SUPPRESS)
    return common


def _add_audit(parser: CommandParser, common: CommandParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    verify = actions.add_parser("verify", parents=[common], help="find what was changed, deleted or inserted")
    verify.add_argument("--head", type=audit.head, help="an earlier one, kept elsewhere, that must still be there")
    export = actions.add_parser("export", parents=[common], help="write all of it to standard output")
    export.add_argument("--format", choices=sorted(audit_export.FORMATS), default="csv")


def _add_concurrency(parser: argparse._ActionsContainer) -> None:
    default = worker.default_concurrency()
    parser.add_argument(
        "--concurrency", type=_positive, default=default, metavar="N", help=f"tools that run at once; default {default}"
    )


def _port(text: str) -> int:
    if not 0 <= (port := int(text)) <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is no port: 0 to 65535")
    return port


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return number


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
