"""The broker: it answers, and how soon; a folder is there, and can be written to."""

import os
import time
from collections.abc import Iterator
from typing import Final

from celery import current_app

from mcp_app.diagnosis.examination import Seen, first_line
from mcp_app.diagnosis.findings import Finding, failed, ok, warning
from mcp_app.lifecycle import broker
from mcp_app.lifecycle.broker import SilentBrokerError

NAME: Final = "broker"


def look(seen: Seen) -> Iterator[Finding]:
    """Asked twice: what is told is the second round trip, on the connection that the first one made."""
    folder = _folder()
    if folder is not None and not os.path.isdir(folder):
        yield warning(
            NAME,
            f"{folder}: the folder is not there; no worker has read from it yet.",
            "Start `python manage.py mcp worker`, which makes it, or correct CELERY_BROKER_TRANSPORT_OPTIONS.",
        )
        return
    where = folder or broker.address()
    try:
        broker.reach()
        began_at = time.perf_counter()
        broker.reach()
    except SilentBrokerError as error:
        yield _away(where, error)
        return
    took = (time.perf_counter() - began_at) * 1000
    what = "can be written to" if folder is not None else "answers"
    yield ok(NAME, f"{where}: {what} in {took:.1f} ms.")


def answers() -> list[Finding]:
    """The same in short, for who asks every second."""
    try:
        broker.reach()
    except SilentBrokerError as error:
        return [_away(_folder() or broker.address(), error)]
    return [ok(NAME, "It answers.")]


def _away(where: str, error: SilentBrokerError) -> Finding:
    remedy = "Start it, or correct CELERY_BROKER_URL."
    if _folder() is not None:
        remedy = "Let this user write there, or correct CELERY_BROKER_TRANSPORT_OPTIONS."
    return failed(NAME, f"{where}: does not answer: {first_line(error)}.", remedy)


def _folder() -> str | None:
    """Where the messages of the embedded broker are; None of another."""
    folder = current_app.conf.broker_transport_options.get("folder")
    return str(folder) if folder and broker.address().startswith("mcpfs:") else None
