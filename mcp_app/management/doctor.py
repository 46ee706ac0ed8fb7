"""`mcp doctor`: what is wrong with the site, its settings first and then what runs, and what to do about each."""

import json
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from django.conf import settings as django_settings
from django.core.checks import ERROR, WARNING, CheckMessage, run_checks
from django.core.management.color import Style

from mcp_app.checks.values import readable
from mcp_app.diagnosis.examination import examine, first_line, within
from mcp_app.diagnosis.findings import Finding, State, failed, has_failed, ok, warning
from mcp_app.diagnosis.looks import LOOKS

logger = logging.getLogger(__name__)

SETTINGS: Final = "settings"
MARKS: Final = {State.OK: "ok", State.WARNING: "! ", State.FAILED: "x "}
INDENT: Final = "      "
WIDTH: Final = max(len(name) for name in (SETTINGS, *(look.name for look in LOOKS)))


def examination(seconds: float) -> Iterator[Finding]:
    """What this app's system checks find, then what is found of the site as it runs; each look takes `seconds` at most.

    Where the settings cannot be read nothing else is looked at.
    """
    yield from _checks(seconds)
    if readable():
        yield from examine(LOOKS, seconds)


def tell(findings: Iterator[Finding], say: Callable[[str], None], style: Style) -> int:
    """Say each finding as it comes, for people; how many have failed."""
    counts = dict.fromkeys(State, 0)
    told = ""
    for finding in findings:
        counts[finding.state] += 1
        say(_line(finding, style))
        if finding.remedy and finding.remedy != told:
            told = finding.remedy
            say("\n".join(f"{INDENT}{line}" for line in told.splitlines()))
    say(f"{counts[State.FAILED]} failed, {counts[State.WARNING]} to be looked at, {counts[State.OK]} ok.")
    return counts[State.FAILED]


def tell_machines(findings: Iterator[Finding], say: Callable[[str], None]) -> int:
    """Say all of them as one JSON object: `state`, and `findings` in their order; how many have failed."""
    found = list(findings)
    worst = State.FAILED if has_failed(found) else max((each.state for each in found), key=list(State).index)
    say(json.dumps({"state": worst.value, "findings": [each.as_json() for each in found]}, indent=2))
    return sum(each.state == State.FAILED for each in found)


def _checks(seconds: float) -> Iterator[Finding]:
    """Of Django's system checks those of this app; those for deployment as well where this is no debugging site."""
    try:
        # What asks a database, as Django 6.1 would of every one, fails where that is away: `diagnosis` tells that.
        check = partial(run_checks, include_deployment_checks=not django_settings.DEBUG, databases=[])
        messages = within(seconds, check)
    except Exception as error:  # all of the site's run, and any of them may ask what is away
        logger.debug("the system checks did not end well", exc_info=True)
        late = f"did not end within {seconds:g} s"
        took = late if isinstance(error, TimeoutError) else f"failed: {first_line(error)}"
        remedy = "`python manage.py check` says which, by its traceback; what is looked at below does not need them."
        yield failed(SETTINGS, f"The system checks {took}.", remedy)
        return
    ours = [each for each in messages if (each.id or "").startswith("mcp_app.") and not each.is_silenced()]
    serious = [each for each in ours if each.level >= WARNING]
    yield from map(_of_check, serious)
    if not serious:
        yield ok(SETTINGS, "The system checks find nothing.")


def _of_check(message: CheckMessage) -> Finding:
    told = failed if message.level >= ERROR else warning
    return told(SETTINGS, f"{message.id}: {message.msg}", message.hint or "")


def _line(finding: Finding, style: Style) -> str:
    paint = {State.OK: style.SUCCESS, State.WARNING: style.WARNING, State.FAILED: style.ERROR}[finding.state]
    return f"{paint(MARKS[finding.state])}  {finding.name:<{WIDTH}}  {finding.found}"
