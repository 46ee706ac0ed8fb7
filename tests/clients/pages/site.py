"""The site of docs/how-to/connect: the one of docs/how-to/adding.md, with the tool that python.md adds.

Two servers serve it. One accepts calls without a token from this machine, the other one only calls with a token.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from django.core.management import call_command

from tests.docs.pages import snippet
from tests.docs.samples import SITE
from tests.site_setup import steps
from tests.site_setup.conftest import MARKER, Site
from tests.support.site.inspector import ROOT
from tests.support.site.programs import Program

USER: Final = "ada"
_WITH_TOKENS: Final = "mysite.with_tokens"
_PYTHON: Final = f"{SITE}/.venv/bin/python"


@dataclass(frozen=True)
class PagesServer:
    """A server of the site, with `token` if it asks for one."""

    folder: Path
    port: int
    printed: str
    """What `mcp serve` printed, with the paths and the port of the pages."""
    token: str = ""

    def here(self, text: str) -> str:
        """Return the text of a page with the port, the folder and the token of this server."""
        named = text.replace(f"127.0.0.1:{steps.PORT}", f"127.0.0.1:{self.port}").replace(SITE, str(self.folder))
        return named.replace("Bearer TOKEN", f"Bearer {self.token}") if self.token else named

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"


class PagesSite:
    """The site in a folder, and its servers."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._servers: list[Program] = []
        self._manage = (str(site.folder / ".venv/bin/python"), str(site.folder / "manage.py"))
        self._write()
        site.run(*self._manage, "migrate", "--verbosity=0")
        site.run(*self._manage, "createsuperuser", "--noinput", f"--username={USER}", f"--email={USER}@example.org")

    def _write(self) -> None:
        folder = self._site.folder
        call_command("startproject", "mysite", str(folder))
        (folder / "greetings").mkdir()
        (folder / "greetings/__init__.py").touch()
        for file in steps.files():
            file.write(folder)
        (folder / "greetings/mcp_tools.py").write_text(snippet("how-to/connect/python.md#a-tool-to-call").text)
        (folder / "mysite/with_tokens.py").write_text(
            'from mysite.settings import *\n\nMCP = {"AUTHENTICATOR": "mcp_app.auth.tokens.bearer"}\n'
        )
        # Clients do not pass their whole environment to the program that they start.
        python = folder / ".venv/bin/python"
        python.parent.mkdir(parents=True)
        marker = f"{MARKER}={self._site.environment[MARKER]}"
        python.write_text(f'#!/bin/sh\nexec env PYTHONPATH={ROOT} {marker} {sys.executable} "$@"\n')
        python.chmod(0o755)

    def serve(self, settings: str = "mysite.settings", token: str = "") -> PagesServer:
        program = self._site.start(*self._manage, "mcp", "serve", "--port=0", f"--settings={settings}")
        self._servers.append(program)
        program.says("READY")
        port = int(program.says(r"MCP endpoint +http://127\.0\.0\.1:(\d+)/mcp")[1])
        folder = self._site.folder
        printed = program.output().replace(f":{port}/", f":{steps.PORT}/")
        printed = printed.replace(f"{sys.executable} ", f"{_PYTHON} ").replace(str(folder), SITE)
        return PagesServer(folder, port, printed, token)

    def serve_with_tokens(self) -> PagesServer:
        options = ("--name=laptop", f"--settings={_WITH_TOKENS}")
        token = self._site.run(*self._manage, "mcp", "token", "create", USER, *options).split()[-1]
        return self.serve(_WITH_TOKENS, token)

    def stop(self) -> None:
        for server in self._servers:
            assert server.stop() == 0, server.output()
        self._site.await_no_process()


@contextmanager
def opened(folder: Path, logs: Path) -> Iterator[PagesSite]:
    """Yield the site in an empty folder. At the end no process may remain, also of those that clients have started."""
    with Site.opened(folder, logs) as site:
        pages_site = PagesSite(site)
        yield pages_site
        pages_site.stop()
