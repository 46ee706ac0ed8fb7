"""On a new site, `manage.py runserver` warns that it does not serve MCP. The line in its hint corrects that."""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

from tests.acceptance.test_systemd import free_port
from tests.site_setup.conftest import Site
from tests.site_setup.test_mistakes import HINT, SETTINGS, adding
from tests.support.site import wire
from tests.support.site.programs import Program
from tests.support.site.wire import Connection
from tests.support.waiting import eventually

STARTING = 60.0


@contextmanager
def served(site: Site) -> Iterator[tuple[Program, int]]:
    """Serve the site with `runserver`, and yield the program and its port."""
    port = free_port()
    program = site.start(
        sys.executable, "manage.py", "runserver", "--noreload", f"127.0.0.1:{port}", PYTHONUNBUFFERED="1"
    )
    program.says("Quit the server|Listening on", STARTING)
    eventually(lambda: accepts(port), "a listening server", STARTING)
    yield program, port
    program.interrupt()
    program.wait()


def accepts(port: int) -> bool:
    try:
        Connection(port).close()
    except OSError:
        return False
    return True


def status_and_body(port: int) -> tuple[int, bytes]:
    with closing(Connection(port)) as connection:
        connection.post(wire.message("server/discover"))
        return connection.response.status, connection.response.read()


def test_runserver_names_the_line_by_which_it_serves_mcp(first_site: Site) -> None:
    with served(first_site) as (program, port):
        assert status_and_body(port)[0] == 404
        said = program.output()
    assert "(mcp_app.W039) runserver" in said

    [hint] = HINT.finditer(said.replace("HINT: ", "\n"))
    assert hint["path"] == SETTINGS
    adding(SETTINGS, "\n" + re.sub("(?m)^    ", "", hint["lines"]))(first_site.folder)
    with served(first_site) as (program, port):
        status, body = status_and_body(port)
        assert "mcp_app." not in program.output()
    assert (status, "supportedVersions" in json.loads(body)["result"]) == (200, True), body
    first_site.await_no_process()
