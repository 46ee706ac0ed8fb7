"""`mcp doctor`: examines the site's settings and running parts, and prints what to do about each problem."""

import json
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from django.conf import settings as django_settings
from django.core.checks import ERROR, WARNING, CheckMessage, run_checks
from django.core.management.color import Style

from mcp_app.checks.values import is_readable
from mcp_app.diagnosis.checks import CHECKS
from mcp_app.diagnosis.examination import Finding, State, examine, failed, first_line, has_failed, ok, warning, within
from mcp_app.safe_text import safe_text

logger = logging.getLogger(__name__)

SETTINGS: Final = "settings"
MARKS: Final = {State.OK: "ok", State.WARNING: "! ", State.FAILED: "x "}
INDENT: Final = "      "
WIDTH: Final = max(len(name) for name in (SETTINGS, *(check.name for check in CHECKS)))


def examination(seconds: float) -> Iterator[Finding]:
    """Yield the findings of this app's system checks and of the examination of the running site.

    Each check takes at most `seconds`. If the settings cannot be read, nothing else is checked.
    """
    yield from _checks(seconds)
    if is_readable():
        yield from examine(CHECKS, seconds)


def tell(findings: Iterator[Finding], say: Callable[[str], None], style: Style) -> int:
    """Print each finding for people. Return the number of failures."""
    counts = dict.fromkeys(State, 0)
    last_remedy = ""
    for finding in findings:
        counts[finding.state] += 1
        say(_line(finding, style))
        if finding.remedy and finding.remedy != last_remedy:
            last_remedy = finding.remedy
            say("\n".join(f"{INDENT}{safe_text(line)}" for line in last_remedy.splitlines()))
    say(f"{counts[State.FAILED]} failed, {counts[State.WARNING]} warned, {counts[State.OK]} ok.")
    return counts[State.FAILED]


def tell_machines(findings: Iterator[Finding], say: Callable[[str], None]) -> int:
    """Print all findings as a JSON object with `state` and `findings`. Return the number of failures."""
    found = list(findings)
    worst = State.FAILED if has_failed(found) else max((each.state for each in found), key=list(State).index)
    say(json.dumps({"state": worst.value, "findings": [each.as_json() for each in found]}, indent=2))
    return sum(each.state == State.FAILED for each in found)


def _checks(seconds: float) -> Iterator[Finding]:
    """Return the results of this app's system checks, with those for deployment unless `DEBUG` is on."""
    try:
        # Database checks fail if a database is away, which `diagnosis` reports.
        check = partial(run_checks, include_deployment_checks=not django_settings.DEBUG, databases=[])
        messages = within(seconds, check)
    except Exception as error:  # checks of the site may fail in any way
        logger.debug("the system checks failed", exc_info=True)
        late = f"did not end within {seconds:g} s"
        took = late if isinstance(error, TimeoutError) else f"failed: {first_line(error)}"
        remedy = "Run `python manage.py check` to see the problem. The checks below do not depend on it."
        yield failed(SETTINGS, f"The system checks {took}.", remedy)
        return
    ours = [each for each in messages if (each.id or "").startswith("mcp_app.") and not each.is_silenced()]
    serious = [each for each in ours if each.level >= WARNING]
    yield from map(_of_check, serious)
    if not serious:
        yield ok(SETTINGS, "The system checks found no problems.")


def _of_check(message: CheckMessage) -> Finding:
    make_finding = failed if message.level >= ERROR else warning
    return make_finding(SETTINGS, f"{message.id}: {message.msg}", message.hint or "")


def _line(finding: Finding, style: Style) -> str:
    paint = {State.OK: style.SUCCESS, State.WARNING: style.WARNING, State.FAILED: style.ERROR}[finding.state]
    return f"{paint(MARKS[finding.state])}  {finding.name:<{WIDTH}}  {safe_text(finding.found)}"
