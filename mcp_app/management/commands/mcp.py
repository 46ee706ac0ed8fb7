"""`manage.py mcp …`: the site's command line for MCP. Calls and prints; the work is in `mcp_app.management`."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error as DatabaseError

from mcp_app.catalogue.registry import RegisteredTool, registered_tools
from mcp_app.conf import DEFAULT_ENDPOINT, settings
from mcp_app.lifecycle import groups, purging
from mcp_app.lifecycle.groups import Group
from mcp_app.management import audit, cancel, command_line, preparation, supervise, tokens, worker
from mcp_app.models import Tool


class Command(BaseCommand):
    help = (
        "Serve MCP, run its worker, supervise, call tools, cancel requests, list tools, make tokens, verify and export "
        "the audit, purge."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        command_line.add_commands(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        {
            "serve": self._serve,
            "stdio": self._stdio,
            "worker": self._worker,
            "supervise": self._supervise,
            "call": self._call,
            "cancel": self._cancel,
            "tools": self._tools,
            "audit": self._audit,
            "purge": self._purge,
            "token": self._token,
        }[options["command"]](**options)

    def _serve(self, **options: Any) -> None:
        # Not for the other commands: it loads a web server, and with it an event loop.
        from mcp_app.embedded.server import ListenError
        from mcp_app.management.serve import AddressRefusedError, Options, serve

        concurrency = None if options["no_worker"] else options["concurrency"]
        try:
            serve(Options(options["host"], options["port"], concurrency, options["pool"]), self._say)
        except ListenError as error:
            raise CommandError(f"{error}. Stop what uses it, or choose another with --port.") from error
        except (AddressRefusedError, preparation.NotPreparedError) as error:
            raise CommandError(str(error)) from error

    def _stdio(self, **options: Any) -> None:
        from mcp_app.transport.stdio import streams

        endpoint = _endpoint(options["endpoint"])
        claimed = streams.claim()
        # After the claim, in case it prints; and not for the other commands: it loads an event loop.
        from mcp_app.management.stdio import Options, serve

        concurrency = None if options["no_worker"] else options["concurrency"]
        if not serve(Options(concurrency, options["user"], endpoint), claimed, self._say_aside):
            raise CommandError("The site could not serve; see above.")

    def _worker(self, **options: Any) -> None:
        _require_tables()
        status = worker.run(
            concurrency=options["concurrency"],
            queues=options["queues"] or None,
            pool=options["pool"],
            parent_pid=options["parent_pid"],
        )
        raise SystemExit(status)

    def _supervise(self, **options: Any) -> None:
        if options["once"]:
            _require_tables()
            if not supervise.once():
                raise CommandError("The round was not completed; see above.")
            return
        self._say("Supervising. Ctrl-C ends it.")
        supervise.run()
        self._say("Stopped.")

    def _call(self, **options: Any) -> None:
        endpoint = _endpoint(options["endpoint"])
        from mcp_app.management import calling, local_caller

        concurrency = None if options["no_worker"] else options["concurrency"]
        wishes = calling.Wishes(concurrency, options["timeout"], options["verbosity"], options["as_json"])
        named = options["tool"], options["given"], options["whole"], options["user"], endpoint
        try:
            status = calling.call(calling.Options(*named, wishes), self._say_aside)
        except calling.UsageError as error:
            raise CommandError(str(error), returncode=2) from error
        except local_caller.NotReady as error:
            raise CommandError(str(error)) from error
        raise SystemExit(status)

    def _cancel(self, **options: Any) -> None:
        _require_tables()
        if (group := _group(options)) is not None:
            self._cancel_group(group, **options)
            return
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

    def _cancel_group(self, group: Group, **options: Any) -> None:
        try:
            outcomes = cancel.cancel_group(group, options["reason"])
        except DatabaseError as error:
            raise CommandError(f"{group.name}: not all were cancelled, try again: {error}") from error
        self._say(cancel.describe_group(group, outcomes))
        if options["wait"] is not None:
            if left := cancel.await_stops(group, options["wait"]):
                raise CommandError(f"{group.name}: {left} not stopped within {options['wait']:g} s")
            self._say(f"{group.name}: stopped")

    def _tools(self, **options: Any) -> None:
        _require_tables()
        rows = Tool.objects.in_bulk()
        names = sorted(rows.keys() | registered_tools().keys())
        width = max((len(name) for name in names), default=0)
        for name in names:
            tool = registered_tools().get(name)
            self._say(f"{name:<{width}}  {_state(rows.get(name), registered=tool is not None)}{_offered_at(tool)}")
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

    def _token(self, **options: Any) -> None:
        _require_tables()
        try:
            {"create": tokens.create, "list": tokens.show, "revoke": tokens.revoke}[options["action"]](
                options, self._say
            )
        except tokens.TokenError as error:
            raise CommandError(str(error)) from error

    def _say_aside(self, text: str) -> None:
        self.stderr.write(text)
        self.stderr.flush()

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def _offered_at(tool: RegisteredTool | None) -> str:
    """Where a tool is offered, on a site with several endpoints."""
    return f"  at {', '.join(tool.access.endpoints)}" if tool is not None and settings.ENDPOINTS else ""


def _state(row: Tool | None, *, registered: bool) -> str:
    if not registered:
        return "code went away"
    if row is None:
        return "new: enabled at the next start"
    return "enabled" if row.enabled else "disabled"


def _endpoint(named: str | None) -> str:
    """The endpoint of that name."""
    endpoint = named or DEFAULT_ENDPOINT
    if endpoint not in settings.endpoints:
        raise CommandError(
            f"There is no endpoint {endpoint!r}: name one with --endpoint: {', '.join(settings.endpoints)}"
        )
    return endpoint


def _require_tables() -> None:
    try:
        preparation.require_tables()
    except preparation.NotPreparedError as error:
        raise CommandError(str(error)) from error


def _group(options: Mapping[str, Any]) -> Group | None:
    """What is to be cancelled; None where it is one request."""
    if options["all"]:
        return groups.EVERYTHING
    if options["tool"] is not None:
        return groups.of_tool(options["tool"])
    if options["session"] is not None:
        return groups.of_session(options["session"])
    if options["children_of"] is not None:
        return groups.of_parent(options["children_of"])
    if options["principal"] is None:
        return None
    found = cancel.callers(options["principal"])
    if len(found) == 1:
        return groups.of_principal(found[0])
    if not found:
        raise CommandError(f"No caller named {options['principal']} has requests in flight.")
    several = "; ".join(sorted(map(cancel.describe_caller, found)))
    raise CommandError(f"Several callers are named {options['principal']}: name one by all its parts: {several}")
