"""Runs the steps of docs/how-to/deployment.md for two hosts behind nginx, on one host."""

import shlex
import shutil
import subprocess
from io import StringIO
from pathlib import Path
from typing import Final

import pytest
from daphne.cli import CommandLineInterface
from django.core.management import call_command, load_command_class
from uvicorn.main import main as uvicorn

from tests.acceptance.systemd import UNITS
from tests.docs.pages import snippet
from tests.support.site.guide import NGINX

PAGES_PROXY: Final = "10.0.0.10"
HOST: Final = "10.0.0.11"
PORT: Final = 8001


def unit(name: str) -> dict[str, str]:
    lines = (UNITS / name).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def test_the_copied_unit_listens_on_the_private_address_like_the_pages_command(tmp_path: Path) -> None:
    copy, edit = snippet("how-to/deployment.md#two-hosts-behind-nginx").text.splitlines()
    assert copy == "cp /path/to/checkout/docs/deployment/systemd/* /etc/systemd/system/"
    shutil.copytree(UNITS, tmp_path, dirs_exist_ok=True)
    subprocess.run(shlex.split(edit.replace("/etc/systemd/system", str(tmp_path))), check=True)
    [started] = [line for line in (tmp_path / "mcp-server@.service").read_text().splitlines() if "ExecStart" in line]
    words = shlex.split(started.partition("=")[2].replace("%i", str(PORT)))
    in_unit = uvicorn.make_context("uvicorn", words[words.index("uvicorn") + 1 :]).params
    by_hand, *_ = snippet("how-to/deployment.md#two-hosts-behind-nginx:2").text.splitlines()
    on_page = uvicorn.make_context("uvicorn", shlex.split(by_hand)[1:]).params
    assert on_page == in_unit
    assert (on_page["host"], on_page["port"], on_page["forwarded_allow_ips"]) == (HOST, PORT, PAGES_PROXY)


def test_the_other_servers_listen_there_as_well() -> None:
    _, serve, daphne = map(shlex.split, snippet("how-to/deployment.md#two-hosts-behind-nginx:2").text.splitlines())
    told = load_command_class("mcp_app", serve[2]).create_parser(*serve[1:3]).parse_args(serve[3:])
    assert (told.host, told.port, told.no_worker) == (HOST, PORT, True)
    listening = CommandLineInterface().parser.parse_args(daphne[1:])
    assert (listening.host, listening.port) == (HOST, PORT)


@pytest.mark.django_db(databases="__all__")
def test_the_database_is_prepared() -> None:
    for line in snippet("how-to/deployment.md#two-hosts-behind-nginx:3").text.splitlines():
        python, manage, *words = shlex.split(line)
        assert (python, manage) == ("python", "manage.py")
        call_command(*words, stdout=StringIO(), stderr=StringIO())


def test_every_unit_that_is_enabled_exists() -> None:
    enabled = [
        *shlex.split(snippet("how-to/deployment.md#two-hosts-behind-nginx:4").text)[3:],
        *shlex.split(snippet("how-to/deployment.md#two-hosts-behind-nginx:5").text)[3:],
        *shlex.split(snippet("how-to/deployment.md#two-hosts-behind-nginx:6").text)[3:],
    ]
    files = [name if "." in name else f"{name}.service" for name in enabled]
    assert {file.replace(f"@{PORT}", "@") for file in files} == {
        each.name for each in UNITS.iterdir() if each.name != "mcp-purge.service"
    }


def test_the_unit_of_the_sites_own_worker_stops_like_the_worker_of_the_tools() -> None:
    own, tools = unit("mysite-worker.service"), unit("mcp-worker.service")
    assert {name for name in tools if own[name] != tools[name]} == {"Description", "ExecStart"}
    words = own["ExecStart"].partition(" -m celery ")[2].split()
    assert words == ["-A", "mysite", "worker", "--loglevel", "INFO"]


def test_nginx_accepts_its_file_with_the_pages_servers(tmp_path: Path) -> None:
    text = NGINX.read_text()
    for number, line in enumerate(snippet("how-to/deployment.md#two-hosts-behind-nginx:7").text.splitlines(), 1):
        written = f"server 127.0.0.1:{8000 + number};"
        assert text.count(written) == 1
        text = text.replace(written, line)
    assert "127.0.0.1" not in text
    found = shutil.which("nginx", path="/usr/sbin:/usr/bin")
    if found is None:
        pytest.skip("nginx is not installed")
    configuration = tmp_path / "nginx.conf"
    configuration.write_text(text.replace("listen 8080", "listen 127.0.0.1:18080"))
    command = [found, "-t", "-p", str(tmp_path), "-c", str(configuration), "-e", "stderr", "-g", f"pid {tmp_path}/pid;"]
    subprocess.run(command, check=True, capture_output=True)
