"""The files of docs/deployment/containers agree with the guide, whose parts other tests run. No container is needed."""

import difflib
import json
import re
import shlex
import subprocess
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from django.core.management import load_command_class
from django.urls import resolve

from mcp_app.conf import Defaults
from mcp_app.transport import shutdown
from tests.acceptance.containers import FILES, UNDERSTOOD, requirements
from tests.acceptance.systemd import UNITS
from tests.docs.pages import snippet
from tests.support.site import guide
from tests.support.site.inspector import ROOT

CONTAINERFILE: Final = (FILES / "Containerfile").read_text()
HEALTH: Final = {"web-1": "http://127.0.0.1:8000/health/live/", "nginx": "http://127.0.0.1:8080/health/ready/"}
PORT: Final = "8000"
SITE: Final = ("migrate", "web-1", "web-2", "worker", "supervise")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    said: dict[str, Any] = yaml.safe_load((FILES / "compose.yaml").read_text())
    return dict(said["services"])


def instruction(name: str) -> Any:
    """Return the last instruction of that name, which must be in exec form."""
    return json.loads(re.findall(rf"^{name} (\[.*\])$", CONTAINERFILE, re.MULTILINE)[-1])


def unit(name: str) -> dict[str, str]:
    lines = (UNITS / f"{name}.service").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def seconds(service: dict[str, Any]) -> int:
    return int(service["stop_grace_period"].removesuffix("s"))


def test_a_server_is_started_by_the_guides_line() -> None:
    _, *words = guide.server_commands()["uvicorn"]
    listening = {"mcpsite.asgi:application": "mysite.asgi:application", "127.0.0.1": "0.0.0.0", "0": PORT}
    assert instruction("CMD") == ["uvicorn", *(listening.get(word, word) for word in words)]
    assert f"EXPOSE {PORT}\n" in CONTAINERFILE


def test_signals_reach_what_runs_and_the_first_process_reaps() -> None:
    assert instruction("ENTRYPOINT") == ["tini", "--"]
    assert "STOPSIGNAL SIGTERM\n" in CONTAINERFILE
    assert re.findall(r"^USER (\d+)$", CONTAINERFILE, re.MULTILINE) == ["10001"]


@pytest.mark.parametrize("name", ["worker", "supervise"])
def test_what_else_runs_is_what_the_units_run(services: dict[str, Any], name: str) -> None:
    ran = unit(f"mcp-{name}")["ExecStart"].rpartition("/")[2].split()
    command = services[name]["command"]
    assert command[: len(ran)] == ran
    parser = load_command_class("mcp_app", command[2]).create_parser(*command[1:3])
    assert parser.parse_args(command[3:]).command == name


def test_each_is_given_the_time_that_its_unit_gives_it(services: dict[str, Any]) -> None:
    for name, of_unit in (("web-1", "mcp-server@"), ("web-2", "mcp-server@"), ("worker", "mcp-worker")):
        assert seconds(services[name]) == int(unit(of_unit)["TimeoutStopSec"])
        assert seconds(services[name]) > Defaults.DRAIN_SECONDS + shutdown.STOPPING_SECONDS
    assert seconds(services["nginx"]) >= seconds(services["web-1"])


def test_nginx_is_the_guides_but_for_the_servers_addresses_and_health(services: dict[str, Any]) -> None:
    mine, guides = (path.read_text().splitlines()[2:] for path in (FILES / "nginx.conf", guide.NGINX))
    changes = [line for line in difflib.ndiff(guides, mine) if line.startswith(("- ", "+ "))]
    addresses = [services[name]["networks"]["site"]["ipv4_address"] for name in ("web-1", "web-2")]
    assert sorted(change.split(maxsplit=1)[1] for change in changes if change.startswith("- ")) == [
        f"server 127.0.0.1:{port};" for port in (8001, 8002)
    ]
    added = " ".join(change[1:].strip() for change in changes if change.startswith("+ "))
    assert " ".join(added.split()) == (
        f"server {addresses[0]}:{PORT}; server {addresses[1]}:{PORT}; "
        "location /health/ { allow 127.0.0.1; deny all; proxy_pass http://mcp; }"
    )
    trusted = services["web-1"]["environment"]["FORWARDED_ALLOW_IPS"]
    assert trusted == services["nginx"]["networks"]["site"]["ipv4_address"]
    assert services["nginx"]["ports"] == ["8080:8080"]


@pytest.mark.parametrize("name", HEALTH)
def test_health_is_asked_where_it_is_told(services: dict[str, Any], name: str) -> None:
    url = services[name]["healthcheck"]["test"][-1]
    assert url == HEALTH[name]
    assert resolve("/" + url.split("/", 3)[3], "mcpsite.urls").func.__module__ == "mcp_app.health.views"


def test_all_of_the_site_is_one_image_that_can_write_nothing_and_waits_for_its_tables(services: dict[str, Any]) -> None:
    for name in SITE:
        service = services[name]
        assert service.keys() <= UNDERSTOOD
        assert (service["image"], service["read_only"], service["cap_drop"]) == ("mysite", True, ["ALL"])
        waits_for = "database" if name == "migrate" else "migrate"
        assert waits_for in service["depends_on"]


def test_the_image_of_the_tests_has_what_this_app_requires() -> None:
    assert all("==" in line for line in requirements())


def test_what_the_page_copies_is_what_it_says_the_site_then_has(tmp_path: Path) -> None:
    copy, _, up = snippet("how-to/containers.md#containers").text.splitlines()
    copy = copy.replace("/path/to/checkout", str(ROOT)).replace("/srv/site/", f"{tmp_path}/")
    subprocess.run(copy, shell=True, check=True)
    assert {path.name for path in tmp_path.iterdir()} == {
        "Containerfile",
        "compose.yaml",
        "nginx.conf",
        ".dockerignore",
    }
    assert up.startswith("docker compose up ")


def test_what_migrates_makes_the_tables_and_then_the_rows_of_the_tools(services: dict[str, Any]) -> None:
    shell, option, line = services["migrate"]["command"]
    assert (shell, option) == ("sh", "-c")
    migrate, sync = (shlex.split(each) for each in line.split(" && "))
    assert migrate == ["python", "manage.py", "migrate", "--noinput"]
    assert sync[:3] == ["python", "manage.py", "mcp"]
    said = load_command_class("mcp_app", "mcp").create_parser("manage.py", "mcp").parse_args(sync[3:])
    assert (said.command, said.sync) == ("tools", True)


def test_a_new_version_replaces_workers_and_then_one_server_at_a_time(services: dict[str, Any]) -> None:
    build, *ups = snippet("how-to/containers.md#what-stops-when").text.splitlines()
    assert build == "docker compose build && docker compose run --rm migrate"
    replaced = [[word for word in line.split()[3:] if not word.startswith("--")] for line in ups]
    assert replaced == [["worker", "supervise"], ["web-1"], ["web-2"]]
    assert set(chain(*replaced)) <= services.keys()
