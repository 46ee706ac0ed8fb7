"""The admin's users in these tests, with their permissions of the app."""

from collections.abc import Mapping
from typing import Final

PASSWORD: Final = "right-horse-battery"
AUDITOR: Final = ("view_request", "view_cancellation")
USERS: Final[Mapping[str, tuple[str, ...]]] = {
    "auditor": AUDITOR,
    "operator": (*AUDITOR, "cancel_request", "view_request_payload"),
    "manager": ("view_tool", "change_tool"),
    "watcher": ("view_tally",),
    "keeper": ("add_token", "change_token", "view_token"),
    "janitor": ("view_session", "close_session", "view_listenstream", "close_listenstream"),
    "tester": ("view_tool", "call_tool", "view_request", "view_request_payload", "cancel_request"),
    "chief": (
        *AUDITOR,
        "cancel_request",
        "view_request_payload",
        "view_tool",
        "change_tool",
        "view_session",
        "view_listenstream",
        "view_tally",
    ),
    "guide": (
        *AUDITOR,
        "view_request_payload",
        "change_tool",
        "view_session",
        "view_listenstream",
        "view_tally",
        "add_token",
    ),
    "owner": (
        *(*AUDITOR, "cancel_request", "view_request_payload", "view_tally"),
        *("view_tool", "change_tool", "call_tool", "add_token", "change_token", "view_token"),
        *("view_session", "close_session", "view_listenstream", "close_listenstream"),
    ),
}
