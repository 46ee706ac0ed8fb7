"""`manage.py mcp`: parses the command line and calls the functions of `mcp_app.management`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error as DatabaseError

from mcp_app.catalogue import tool_rows
from mcp_app.conf import DEFAULT_ENDPOINT, settings
from mcp_app.lifecycle.cancellation import groups
from mcp_app.lifecycle.cancellation.groups import RequestGroup
from mcp_app.lifecycle.statistics import tallies
from mcp_app.lifecycle.supervision import purging
from mcp_app.management import audit, command_line, doctor, installing, terminal, tokens, tools
from mcp_app.management.interruptions import handle_interruptions
from mcp_app.management.requests import cancel, listing, request_ids, watch
from mcp_app.management.serving import preparation, supervise, worker
from mcp_app.safe_text import safe_text


class Command(BaseCommand):
    help = (
        "Serve MCP, run its worker, supervise, call tools, list, watch and cancel requests, list tools, create tokens, "
        "verify and export the audit, purge, find problems."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        command_line.add_commands(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        run = {
            "install": self._install,
            "serve": self._serve,
            "stdio": self._stdio,
            "worker": self._worker,
            "supervise": self._supervise,
            "call": self._call,
            "cancel": self._cancel,
            "requests": self._requests,
            "watch": self._watch,
            "tools": self._tools,
            "doctor": self._doctor,
            "audit": self._audit,
            "purge": self._purge,
            "token": self._token,
        }[options["command"]]
        with handle_interruptions():
            try:
                run(**options)
            except CommandError as error:
                raise CommandError(safe_text(error), returncode=error.returncode) from error

    def _install(self, **options: Any) -> None:
        try:
            installing.run(Path.cwd(), self._write, write=options["write"], undo=options["undo"])
        except installing.NoSiteError as error:
            raise CommandError(str(error)) from error

    def _serve(self, **options: Any) -> None:
        # Imported here, because it loads a web server and an event loop, which other commands do not need.
        from mcp_app.embedded.server import ListenError
        from mcp_app.management.serving.serve import AddressRefusedError, ServeOptions, WorkerFailedError, serve

        concurrency = None if options["no_worker"] else options["concurrency"]
        try:
            serve(ServeOptions(options["host"], options["port"], concurrency, options["pool"]), self._say)
        except ListenError as error:
            raise CommandError(
                f"{error}. If another program uses the port, stop it; or choose another port with --port."
            ) from error
        except (AddressRefusedError, WorkerFailedError, preparation.NotPreparedError) as error:
            raise CommandError(str(error)) from error

    def _stdio(self, **options: Any) -> None:
        from mcp_app.transport.stdio import streams

        endpoint = _endpoint(options["endpoint"])
        claimed = streams.claim()
        # Imported after the claim, in case it prints, and because other commands need no event loop.
        from mcp_app.management.serving.stdio import StdioOptions, serve

        concurrency = None if options["no_worker"] else options["concurrency"]
        if not serve(StdioOptions(concurrency, options["user"], endpoint), claimed, self._say_aside):
            raise CommandError("The site could not serve; see above.")

    def _worker(self, **options: Any) -> None:
        _require_tables()
        if options["parent_pid"] is None:  # otherwise the parent command prints the messages
            self._say(worker.welcome(options["concurrency"], options["queues"]))
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
        from mcp_app.management import calling
        from mcp_app.management.serving import local_caller

        concurrency = None if options["no_worker"] else options["concurrency"]
        session_options = calling.SessionOptions(
            concurrency, options["timeout"], options["verbosity"], options["as_json"]
        )
        named = options["tool"], options["given"], options["whole"], options["user"], endpoint
        try:
            status = calling.call(calling.CallOptions(*named, session_options), self._say_aside)
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
            request_id = str(request_ids.find(options["id"]) or options["id"])
            outcome = cancel.cancel(request_id, options["reason"])
        except request_ids.UnclearIdError as error:
            raise CommandError(str(error)) from error
        except DatabaseError as error:
            raise CommandError(f"{options['id']}: not cancelled, try again: {error}") from error
        in_force = outcome in cancel.IN_FORCE
        if in_force and not options["as_json"]:
            self._say(f"{request_id}: {cancel.describe(outcome)}")
        waits = in_force and options["wait"] is not None
        row = cancel.await_end(UUID(request_id), options["wait"]) if waits else None
        if options["as_json"]:
            self._say(json.dumps(cancel.as_json(request_id, outcome, row)))
        elif row is not None:
            self._say(f"{request_id}: {cancel.describe_end(row)}")
        if not in_force:
            raise CommandError(f"{request_id}: {cancel.describe(outcome)}")
        if waits and row is None:
            raise CommandError(f"{request_id}: not stopped within {options['wait']:g} s")

    def _cancel_group(self, group: RequestGroup, **options: Any) -> None:
        try:
            outcomes = cancel.cancel_group(group, options["reason"])
        except DatabaseError as error:
            raise CommandError(f"{group.name}: not all were cancelled, try again: {error}") from error
        if not options["as_json"]:
            self._say(cancel.describe_group(group, outcomes))
        left = 0 if options["wait"] is None else cancel.await_stops(group, options["wait"])
        if options["as_json"]:
            self._say(json.dumps(cancel.group_as_json(group, outcomes, left)))
        if left:
            raise CommandError(f"{group.name}: {left} not stopped within {options['wait']:g} s")
        if options["wait"] is not None and not options["as_json"]:
            self._say(f"{group.name}: stopped")

    def _requests(self, **options: Any) -> None:
        _require_tables()
        try:
            self._show_requests(**options)
        except listing.UnknownRequestError as error:
            raise CommandError(str(error)) from error

    def _show_requests(self, **options: Any) -> None:
        if options["id"] is not None:
            (listing.write_one if options["as_json"] else listing.show_one)(options["id"], self._say)
            return
        named = (options[name] for name in ("all", "status", "tool", "principal", "since", "limit"))
        selection = listing.Selection(*named)
        if options["as_json"]:
            listing.write_list(selection, self._say)
        elif listing.show_list(selection, self._say, columns=_columns(self.stdout)):
            self._say_aside(f"There are more than these {options['limit']}; --limit shows more.")

    def _watch(self, **options: Any) -> None:
        _require_tables()
        watch.watch(as_json=options["as_json"])

    def _tools(self, **options: Any) -> None:
        _require_tables()
        if options["sync"]:
            tool_rows.sync()
        (tools.write if options["as_json"] else tools.show)(self._say)

    def _doctor(self, **options: Any) -> None:
        findings = doctor.examination(options["timeout"])
        count = (
            doctor.tell_machines(findings, self._say)
            if options["as_json"]
            else doctor.tell(findings, self._write, self.style)
        )
        if count:
            raise CommandError(f"{count} failed; see above for what to do.")

    def _audit(self, **options: Any) -> None:
        _require_tables()
        if options["action"] == "export":
            if reconfigure := getattr(self.stdout, "reconfigure", None):
                reconfigure(encoding="utf-8", newline="")
            audit.export(options["format"], self._write)
        elif found := (audit.write if options["as_json"] else audit.verify)(options["head"] or "", self._say):
            raise CommandError(f"The audit could not be verified; findings: {found}, see above.")

    def _purge(self, **options: Any) -> None:
        _require_tables()
        deleted, attempts = purging.purge_requests(), purging.purge_audit()
        tallies.fold_old()
        if options["as_json"]:
            self._say(json.dumps({"requests": deleted, "attempts": attempts}))
        elif options["verbosity"]:  # with verbosity 0, for cron, which mails all output
            told = f"{terminal.count_of(deleted, 'request')} and {terminal.count_of(attempts, 'attempt')} to cancel"
            self._say(f"{told} deleted.")

    def _token(self, **options: Any) -> None:
        _require_tables()
        try:
            {"create": tokens.create, "list": tokens.show, "revoke": tokens.revoke}[options["action"]](
                options, self._say
            )
        except tokens.TokenError as error:
            raise CommandError(str(error)) from error

    def _say_aside(self, text: str) -> None:
        self.stderr.write(safe_text(text))
        self.stderr.flush()

    def _say(self, text: str) -> None:
        """Print text that may come from clients or tools, without control characters."""
        self._write(safe_text(text))

    def _write(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def _endpoint(named: str | None) -> str:
    """Return the endpoint with that name."""
    endpoint = named or DEFAULT_ENDPOINT
    if endpoint not in settings.endpoints:
        raise CommandError(
            f"There is no endpoint {endpoint!r}: name one with --endpoint: {', '.join(settings.endpoints)}"
        )
    return endpoint


def _columns(stream: Any) -> int | None:
    """Return the width of the terminal, or `None` if the output is not a terminal and must not be cut."""
    return terminal.size(stream)[0] if stream.isatty() else None


def _require_tables() -> None:
    try:
        preparation.require_tables()
    except preparation.NotPreparedError as error:
        raise CommandError(str(error)) from error


def _group(options: Mapping[str, Any]) -> RequestGroup | None:
    """Return the group to cancel, or `None` for a single request."""
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
    raise CommandError(
        f"Several callers have the name {options['principal']}: give one as ISSUER,SUBJECT,CLIENT: {several}"
    )
