"""The metrics match the database, survive restarts and purges, and need a permission."""

import re
import shlex
import tomllib
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any
from uuid import UUID

import pytest
import yaml
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS
from django.db.models import F
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from mcp_app import databases
from mcp_app.auth import tokens
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.supervision import rounds
from mcp_app.metrics.collector import MCPCollector
from mcp_app.models import Request, Tally, Token
from mcp_app.states import Cause, ProcessRole, Stage, Status
from tests.docs.pages import ROOT, snippet
from tests.support import rows

pytestmark = [
    pytest.mark.django_db(transaction=True, databases="__all__"),
    pytest.mark.urls("tests.metrics.urls"),
]
Sample = tuple[str, frozenset[tuple[str, str]]]


@pytest.fixture
def worker() -> UUID:
    return rows.alive(ProcessRole.WORKER)


@pytest.fixture
def token() -> str:
    return token_of("prometheus")


def token_of(name: str, *codenames: str, scopes: list[str] | None = None) -> str:
    user = User.objects.create_user(name)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames or ["view_tally"]))
    return tokens.issue(user, name, by="test", scopes=scopes).text


def get(token: str = "", **headers: str) -> Any:
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return Client().get("/metrics", headers=headers)


def scraped(token: str) -> dict[Sample, float]:
    answer = get(token)
    assert answer.status_code == 200, answer.content
    families = text_string_to_metric_families(answer.content.decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def sample(name: str, **labels: str) -> Sample:
    return name, frozenset(labels.items())


def end(row: Request, worker: UUID, status: Status, seconds: float, **columns: Any) -> None:
    assert transitions.finish(row.pk, status, worker=worker, **columns)
    begun = F("finished_at") - timedelta(seconds=seconds)
    stop = {"cancel_requested_at": begun} if row.cancel_requested_at else {}
    Request.objects.filter(pk=row.pk).update(claimed_at=begun, queued_at=begun - timedelta(seconds=seconds), **stop)


def test_counters_and_histograms_match_the_ended_calls(worker: UUID, token: str) -> None:
    end(rows.running(worker), worker, Status.COMPLETED, 0.03)
    end(rows.running(worker), worker, Status.FAILED, 3.0)
    end(rows.stopping(worker, Cause.DISCONNECT), worker, Status.CANCELLED, 0.3, stage=Stage.INTERRUPT)
    rows.cancel(rows.queued(tool="sow"), Cause.ADMIN)
    rounds.supervise()
    found = scraped(token)
    for status in ("completed", "failed", "cancelled"):
        assert found[sample("mcp_calls_total", tool="dig", status=status)] == 1
    assert found[sample("mcp_calls_total", tool="sow", status="cancelled")] == 1
    stopped = sample("mcp_cancellations_total", tool="dig", cause="disconnect", stage="interrupt")
    assert found[stopped] == 1
    assert found[sample("mcp_run_seconds_count", tool="dig")] == 3
    assert found[sample("mcp_run_seconds_sum", tool="dig")] == pytest.approx(3.33)
    buckets = {bound: found[sample("mcp_run_seconds_bucket", tool="dig", le=bound)] for bound in ("0.025", "0.063")}
    assert buckets == {"0.025": 0, "0.063": 1}
    assert found[sample("mcp_run_seconds_bucket", tool="dig", le="+Inf")] == 3
    assert sample("mcp_run_seconds_count", tool="sow") not in found
    assert found[sample("mcp_wait_seconds_count", tool="dig")] == 3
    assert found[sample("mcp_stop_seconds_count", cause="disconnect", stage="interrupt")] == 1
    assert found[sample("mcp_counting_behind_seconds")] == 0


def test_gauges_match_open_calls_queues_and_processes(worker: UUID, token: str) -> None:
    rows.running(worker)
    waiting = rows.queued(queue="slow")
    Request.objects.filter(pk=waiting.pk).update(queued_at=F("queued_at") - timedelta(seconds=90))
    end(rows.running(worker), worker, Status.COMPLETED, 1.0)
    Request.objects.filter(finished_at__isnull=False).update(finished_at=F("finished_at") - timedelta(seconds=60))
    found = scraped(token)
    assert found[sample("mcp_requests", tool="dig", status="running")] == 1
    assert found[sample("mcp_requests", tool="dig", status="queued")] == 1
    assert found[sample("mcp_queue_waiting", queue="slow")] == 1
    assert 90 <= found[sample("mcp_queue_oldest_seconds", queue="slow")] < 120
    alive = {role: found[sample("mcp_processes", role=role)] for role in ("worker", "server")}
    assert alive == {"worker": 1, "server": 0}
    assert 60 <= found[sample("mcp_counting_behind_seconds")] < 90


def test_a_scrape_needs_the_permission_to_see_statistics(client: Client, token: str) -> None:
    for shown in ("", "nonsense", token[:-1] + ("a" if token[-1] != "a" else "b")):
        refused = get(shown)
        assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert get(token_of("clerk", "view_tool")).status_code == 403
    assert get(token_of("narrow", scopes=["files:read"])).status_code == 401
    assert get(token_of("meant", scopes=["metrics"])).status_code == 200
    Token.objects.filter(name="meant").update(expires_at=timezone.now() - timedelta(days=1))
    gone = User.objects.get(username="prometheus")
    assert get(token).status_code == 200
    gone.is_active = False
    gone.save()
    assert get(token).status_code == 401
    client.force_login(User.objects.get(username="clerk"))
    assert client.get("/metrics").status_code == 403
    client.force_login(User.objects.create_superuser("root"))
    page = client.get("/metrics")
    assert page.status_code == 200
    assert "no-store" in page.headers["Cache-Control"]
    assert client.post("/metrics").status_code == 405


def test_prometheus_scrapes_with_the_documented_configuration(worker: UUID) -> None:
    user = User.objects.create_user("prometheus")
    user.user_permissions.set(Permission.objects.filter(codename="view_tally"))
    install, create = snippet("how-to/operations.md#how-much-how-often-how-long-prometheus").text.splitlines()
    [extra] = re.findall(r'pip install "/path/to/checkout\[(\w+)\]"', install)
    assert extra in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert create.startswith("python manage.py ")
    call_command(*shlex.split(create)[2:], stdout=(said := StringIO()), stderr=StringIO())

    [job] = yaml.safe_load(snippet("how-to/operations.md#how-much-how-often-how-long-prometheus:3").text)[
        "scrape_configs"
    ]
    assert job.keys() == {
        "job_name",
        "authorization",
        "static_configs",
    }  # the rest has the default values of Prometheus
    assert job["authorization"].keys() == {"credentials_file"}
    assert job["static_configs"] == [{"targets": ["example.com"]}]
    [token] = [line for line in said.getvalue().split() if line.startswith("mcp_")]
    assert scraped(token)[sample("mcp_processes", role="worker")] == 1


def test_the_number_of_queries_of_a_scrape_is_constant(worker: UUID, token: str) -> None:
    def cost() -> int:
        with CaptureQueriesContext(databases.connection()) as queries:
            list(MCPCollector().collect())
        return len(queries)

    before = cost()
    for number in range(30):
        end(rows.running(worker, tool=f"tool {number}"), worker, Status.COMPLETED, 1.0)
        rows.queued(tool=f"tool {number}", queue=f"queue {number}")
    rounds.supervise()
    assert Tally.objects.count() == 60
    assert cost() == before <= 5


def test_a_site_registers_the_collector_in_a_registry_of_its_own_without_a_query(
    django_assert_num_queries: Callable[..., Any],
) -> None:
    with django_assert_num_queries(0, using=DEFAULT_DB_ALIAS):
        CollectorRegistry().register(MCPCollector())


def test_names_cannot_break_out_of_their_labels(worker: UUID, token: str) -> None:
    name = 'x"} 1\nmcp_calls_total{tool="'
    end(rows.running(worker, tool=name), worker, Status.COMPLETED, 1.0)
    rounds.supervise()
    assert scraped(token)[sample("mcp_calls_total", tool=name, status="completed")] == 1
