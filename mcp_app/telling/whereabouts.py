"""Where an open request is, in words: its place in the queue, or when its worker was last heard of."""

from django.contrib.humanize.templatetags.humanize import intcomma, ordinal

from mcp_app.lifecycle.inert import inert
from mcp_app.lifecycle.queue_places import COUNTED, Place
from mcp_app.lifecycle.vital_signs import ProcessSigns
from mcp_app.telling.formatting import duration

QUEUE_CHARS = 80


def place(found: Place) -> str:
    """`3rd of 7 in mcp`; of a long queue, that it is long."""
    queue, many = inert(found.queue, QUEUE_CHARS), intcomma(COUNTED)
    if found.ahead >= COUNTED:
        return f"more than {many} before it in {queue}"
    of = f"more than {many}" if found.waiting >= COUNTED else intcomma(found.waiting)
    return f"{ordinal(found.ahead + 1)} of {of} in {queue}"


def last_word(signs: ProcessSigns | None) -> str:
    """`heard 0.3 s ago`; None is a process that nobody knows any more."""
    if signs is None:
        return "gone"
    if signs.has_stopped:
        return "stopped"
    if signs.is_silent:
        return f"silent for {duration(max(0.0, signs.seconds))}"
    return f"heard {max(0.0, signs.seconds):.1f} s ago"
