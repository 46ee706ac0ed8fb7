"""Fills a database with the rows of a site that was used for weeks.

The database itself repeats the samples, each time at an earlier time. The rows are requests and their events, the audit
with its signatures and seals, and tallies, as the app itself would have written them. Use this only on an empty
database, because indexes are dropped during the filling and created again.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final
from uuid import UUID

from django.core.management.color import no_style
from django.db.models import Max

from bench.admin import samples
from mcp_app import databases
from mcp_app.catalogue import tool_rows
from mcp_app.lifecycle.audit import sealing, signatures
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.statistics import durations, tallies
from mcp_app.lifecycle.statistics.durations import Durations
from mcp_app.models import AuditDay, Cancellation, ListenStream, Request, RequestEvent, Session, Tally, Token, Tool
from mcp_app.states import Cause, Measure, Outcome, ProcessRole, Status

_AT_ONCE: Final = 1_000
_TIMES: Final = ("submitted_at", "queued_at", "published_at", "claimed_at", "finished_at", "delivered_at")
_ALL_TIMES: Final = (*_TIMES, "tallied_at", "cancel_requested_at")
_KEYS: Final = ("tool", "measure", "status", "cause", "stage", "bucket")


@dataclass(slots=True)
class Site:
    """The contents of the database, and the processes that are alive."""

    newest: datetime = field(default_factory=lambda: datetime.now(UTC))
    worker: Identity = field(default_factory=lambda: Identity(ProcessRole.WORKER))
    server: Identity = field(default_factory=lambda: Identity(ProcessRole.SERVER))
    requests: int = 0
    """The number of ended requests."""
    apart: timedelta = samples.SPACING * samples.SAMPLES
    """The time between two repetitions of the samples."""

    def beat(self) -> None:
        """Store heartbeats of its processes."""
        processes.beat(self.worker)
        processes.beat(self.server)


def begin() -> Site:
    """Store the rows that are not repeated and the first `samples.SAMPLES` ended requests."""
    site = Site()
    site.beat()
    tool_rows.sync()
    tools = list(Tool.objects.values_list("name", flat=True))
    _store(Session, samples.sessions(site.newest, site.server.boot_id))
    _store(ListenStream, samples.streams(site.newest, site.server.boot_id))
    _store(Token, samples.tokens(site.newest))
    sessions = list(Session.objects.values_list("pk", flat=True))
    _store(Request, samples.in_flight(site.newest, tools, site.worker.boot_id, sessions))
    for row in Request.objects.iterator(_AT_ONCE):
        RequestEvent.objects.bulk_create(samples.events(row))
    _begin_with_ended(site, tools)
    return site


def begin_with_ended(apart: timedelta) -> Site:
    """Store the first `samples.SAMPLES` ended requests, without processes, sessions and open requests."""
    site = Site(apart=apart)
    tool_rows.sync()
    _begin_with_ended(site, list(Tool.objects.values_list("name", flat=True)))
    return site


def _begin_with_ended(site: Site, tools: Sequence[str]) -> None:
    ended = samples.ended(site.newest, tools)
    Request.objects.bulk_create(ended)
    _execute("CREATE TABLE bench_request AS SELECT * FROM mcp_app_request WHERE finished_at IS NOT NULL")
    _remember_tallies(ended)
    _add_what_follows(site, 0, 1, last=False)


def grow(site: Site, requests: int, *, last: bool) -> None:
    """Repeat the samples until `requests` requests have ended.

    The audit is sealed only with `last`: seals begin with the oldest attempt, and each repetition adds older ones.
    """
    first, end = site.requests // samples.SAMPLES, requests // samples.SAMPLES
    if end <= first:
        return
    columns = {each.column: each.column for each in Request._meta.concrete_fields}
    columns |= {name: _earlier(name, site.apart) for name in _ALL_TIMES}
    columns["id"] = _id_of(columns["submitted_at"])
    with _bulk():
        _execute(
            f"INSERT INTO mcp_app_request ({', '.join(columns)}) {_again(first, end)} "
            f"SELECT {', '.join(columns.values())} FROM again CROSS JOIN bench_request"
        )
        _add_what_follows(site, first, end, last=last)
    if not _is_sqlite():
        _execute("VACUUM ANALYZE")  # PostgreSQL would do this by itself, but later


def talkative(site: Site) -> UUID:
    """Store very many events for one request, and return its id."""
    row = Request.objects.filter(status=Status.COMPLETED).order_by("-submitted_at")[0]
    _store(RequestEvent, samples.talk(row))
    Request.objects.filter(pk=row.pk).update(event_seq=samples.TALKATIVE)
    return row.pk


def _add_what_follows(site: Site, first: int, end: int, *, last: bool) -> None:
    """Store the events, the audit and the tallies of the repetitions from `first` to before `end`."""
    since, before = site.newest - site.apart * end, site.newest - site.apart * first
    _insert_events(since, before)
    _audit(since, before, seal=last)
    _tally(first, end, site.apart)
    if last:
        tallies.store_ended_days()
    site.requests = end * samples.SAMPLES


def _insert_events(since: datetime, before: datetime) -> None:
    fourth, third = "'{\"status\": \"' || status || '\"}'", '\'{"progress": 50, "total": 100, "message": "half"}\''
    cancel = '\'{"cause": "\' || cancel_cause || \'", "actor": "\' || cancel_actor || \'"}\''
    data = (
        'CASE seq WHEN 1 THEN \'{"status": "queued"}\' WHEN 2 THEN \'{"status": "running", "pid": 4711}\' '
        f"WHEN 3 THEN CASE status WHEN 'cancelled' THEN {cancel} ELSE {third} END ELSE {fourth} END"
    )
    data = data if _is_sqlite() else f"({data})::jsonb"
    kind = "CASE WHEN seq <> 3 THEN 'transition' WHEN status = 'cancelled' THEN 'cancel' ELSE 'progress' END"
    at = "CASE seq WHEN 1 THEN submitted_at WHEN 2 THEN claimed_at ELSE finished_at END"
    _execute(
        "INSERT INTO mcp_app_requestevent (request_id, seq, kind, data, recorded_at) "
        "WITH RECURSIVE story(seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM story WHERE seq < 4) "
        f"SELECT id, seq, {kind}, {data}, {at} FROM mcp_app_request CROSS JOIN story "
        "WHERE finished_at IS NOT NULL AND submitted_at >= %s AND submitted_at < %s",
        _time(since), _time(before),
    )  # fmt: skip


def _id_of(moment: str) -> str:
    """Return an SQL expression for a request id as `request_ids.new` makes it at that moment."""
    if _is_sqlite():
        milliseconds = f"printf('%%012x', CAST((julianday({moment}) - 2440587.5) * 86400000 AS INTEGER))"
        text = "lower(hex(randomblob(10)))"
        return f"{milliseconds} || '7' || substr({text}, 1, 3) || '8' || substr({text}, 1, 15)"
    milliseconds = f"lpad(to_hex((extract(epoch from {moment}) * 1000)::bigint), 12, '0')"
    text = "md5(random()::text)"
    return f"({milliseconds} || '7' || substr({text}, 1, 3) || '8' || substr({text}, 1, 15))::uuid"


def _audit(since: datetime, before: datetime, *, seal: bool) -> None:
    """Store an accepted attempt for each cancelled request.

    With `seal`, these attempts are sealed, and then the newer ones, which were stored before without a seal.
    """
    cancelled = Request.objects.filter(
        cancel_requested_at__isnull=False, finished_at__isnull=False, submitted_at__gte=since, submitted_at__lt=before
    ).order_by("submitted_at")
    columns = (
        *("pk", "tool", "issuer", "subject", "client_id", "endpoint", "principal_label", "cancel_cause"),
        *("cancel_actor", "cancel_reason", "stage", "cancel_requested_at", "finished_at"),
    )
    number = Cancellation.objects.aggregate(newest=Max("pk"))["newest"] or 0
    chain = _Chain()
    for some in _parts(cancelled.values_list(*columns).iterator(_AT_ONCE)):
        attempts = [_attempt(number + place, *row) for place, row in enumerate(some, 1)]
        number += len(attempts)
        if seal:
            chain.add(attempts)
        Cancellation.objects.bulk_create(attempts)
    chain.close()
    for statement in databases.connection().ops.sequence_reset_sql(no_style(), [Cancellation]):
        _execute(statement)
    if seal:
        while sealing.unsealed().exists():
            sealing.seal_final_attempts()


def _attempt(number: int, *row: Any) -> Cancellation:
    request_id, tool, issuer, subject, client_id, endpoint, label, cause, actor, reason, stage, asked, ended = row
    attempt = Cancellation(
        pk=number, request_id=request_id, tool=tool, issuer=issuer, subject=subject, client_id=client_id,
        endpoint=endpoint, principal_label=label, client_name="editor 1.102.3", cause=cause, actor=actor,
        actor_address="192.0.2.7" if cause == Cause.ADMIN else "", reason=reason, outcome=Outcome.ACCEPTED,
        status_before=Status.RUNNING, status_after=Status.CANCELLED, stage=stage, requested_at=asked, stopped_at=ended,
        settled_at=ended, latency_ms=(ended - asked).total_seconds() * 1000,
    )  # fmt: skip
    attempt.signature = signatures.sign(attempt)
    return attempt


class _Chain:
    """Seals attempts in order, each in the chain of the day on which the cancellation was requested."""

    def __init__(self) -> None:
        self._days: list[AuditDay] = []

    def add(self, attempts: Sequence[Cancellation]) -> None:
        for row in attempts:
            day = self._day(row.requested_at.astimezone(UTC))
            row.sealed_on, row.seal_number = day.day, day.count + 1
            row.seal = signatures.seal(row, day.head)
            day.count, day.head = row.seal_number, row.seal

    def _day(self, at: datetime) -> AuditDay:
        if not self._days or self._days[-1].day < at.date():
            origin = self._days[-1].head if self._days else ""
            self._days.append(AuditDay(day=at.date(), origin=origin, head=signatures.start(at.date(), origin)))
        return self._days[-1]

    def close(self) -> None:
        for day in self._days:
            day.signature = signatures.sign_day(day)
        AuditDay.objects.bulk_create(self._days)


def _remember_tallies(ended: Sequence[Request]) -> None:
    """Store the values that each sample adds to the tallies of its hour."""
    _execute(
        "CREATE TABLE bench_tally (finished_at timestamp with time zone, tool text, measure text, "
        "status text, cause text, stage smallint, bucket smallint, seconds double precision)"
    )
    told = []
    for row in ended:
        cause, stage = (row.cancel_cause, int(row.stage)) if row.status == Status.CANCELLED else ("", 0)
        took = Durations.of(row)
        for measure, seconds in ((Measure.RUN, took.run), (Measure.WAIT, took.wait), (Measure.STOP, took.stop)):
            if seconds is not None:
                key = (row.tool, measure.value, str(row.status), str(cause), stage, durations.bucket_of(seconds))
                told.append((_time(row.finished_at), *key, seconds))
    with databases.connection().cursor() as cursor:
        cursor.executemany(f"INSERT INTO bench_tally VALUES ({', '.join(['%s'] * 8)})", told)


def _tally(first: int, end: int, apart: timedelta) -> None:
    at = _earlier("finished_at", apart)
    hour = f"strftime('%%Y-%%m-%%d %%H:00:00', {at})" if _is_sqlite() else f"date_trunc('hour', {at}, 'UTC')"
    keys = ", ".join(_KEYS)
    _execute(
        f"INSERT INTO {Tally._meta.db_table} (hour, {keys}, count, seconds) {_again(first, end)} "
        f"SELECT {hour}, {keys}, count(*), sum(seconds) FROM again CROSS JOIN bench_tally WHERE true "
        f"GROUP BY {hour}, {keys} ON CONFLICT (hour, {keys}) DO UPDATE SET "
        "count = mcp_app_tally.count + excluded.count, seconds = mcp_app_tally.seconds + excluded.seconds"
    )


def _again(first: int, end: int) -> str:
    """Return the SQL table `again` with the numbers of the repetitions. The oldest is first, as on a real site."""
    return f"WITH RECURSIVE again(n) AS (SELECT {end - 1} UNION ALL SELECT n - 1 FROM again WHERE n > {first}) "


def _earlier(column: str, apart: timedelta) -> str:
    """Return an SQL expression for the time of a sample in repetition `n`."""
    seconds = int(apart.total_seconds())
    if _is_sqlite():
        return f"strftime('%%Y-%%m-%%d %%H:%%M:%%f', {column}, (-n * {seconds}) || ' seconds')"
    return f"({column} - n * interval '{seconds} seconds')"


@contextmanager
def _bulk() -> Iterator[None]:
    """Drop the indexes of requests during the block, and create them again after it.

    SQLite also does not wait for the disk and does not check foreign keys.
    """
    wrapper = databases.connection()
    if _is_sqlite():
        for pragma in ("synchronous = OFF", "cache_size = -1000000", "foreign_keys = OFF"):
            _execute(f"PRAGMA {pragma}")
    with wrapper.schema_editor() as editor:
        for index in Request._meta.indexes:
            editor.remove_index(Request, index)
    yield
    with wrapper.schema_editor() as editor:
        for index in Request._meta.indexes:
            editor.add_index(Request, index)
    if _is_sqlite():
        _execute("PRAGMA wal_checkpoint(TRUNCATE)")
        wrapper.close()  # together with its pragmas


def _store(model: Any, rows: Iterator[Any]) -> None:
    for some in _parts(rows):
        model.objects.bulk_create(some)


def _parts(rows: Iterator[Any]) -> Iterator[list[Any]]:
    while some := list(islice(rows, _AT_ONCE)):
        yield some


def _execute(statement: str, *parameters: Any) -> None:
    with databases.connection().cursor() as cursor:
        cursor.execute(statement, parameters)  # with parameters, even `()`, percent signs are doubled


def _time(moment: datetime | None) -> Any:
    return databases.connection().ops.adapt_datetimefield_value(moment)


def _is_sqlite() -> bool:
    return databases.connection().vendor == "sqlite"
