"""The two rounds of a run: every page with few rows, then again with many, in the same database."""

from collections.abc import Callable
from typing import Final

from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connections
from django.test import Client

from bench.admin import filling, pages
from bench.admin.visiting import Visit, visit
from mcp_app.models import Cancellation, Request, RequestEvent, Tally

_COUNTED: Final = (Request, RequestEvent, Cancellation, Tally)


class Rounds:
    """Fills a database, and requests the pages whose names contain `named`. Calls `say` with progress messages."""

    def __init__(self, say: Callable[[str], None], samples: int, named: str = "") -> None:
        self._say, self._samples, self._named = say, samples, named
        for alias in connections:
            call_command("migrate", database=alias, verbosity=0)
        self._user = User.objects.create_superuser("root")
        self._client = Client()
        self._client.force_login(self._user)
        self._site = filling.begin()
        self._talkative = filling.talkative(self._site)
        self.held = ""
        """A text with the number of rows in the database."""
        say("a thousand requests")

    def few(self, requests: int) -> list[Visit]:
        filling.grow(self._site, requests, last=False)
        self._say(f"{requests} requests")
        return self._visit(samples=0)

    def many(self, requests: int) -> list[Visit]:
        filling.grow(self._site, requests, last=True)
        counts = {str(model._meta.verbose_name_plural): model._default_manager.count() for model in _COUNTED}
        self.held = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        self._say(self.held)
        return self._visit(samples=self._samples)

    def close(self) -> None:
        connections.close_all()

    def _visit(self, samples: int) -> list[Visit]:
        found = []
        for page in pages.all_pages(self._site, self._user, self._talkative):
            if self._named not in page.name:
                continue
            self._site.beat()
            found.append(visit(self._client, page, samples))
        self._say(f"{len(found)} pages")
        return found
