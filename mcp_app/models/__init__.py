"""The rows: tools, requests and their events, cancellations and their seals, sessions, listen streams, what reads ask,
tokens, live processes, change versions, counts of what ended.

Owns shapes, indexes and what a row refuses. The life of a request is written by `lifecycle` alone; rows name users and
requests by value, not by foreign key, so that they may live in a database of their own and the audit outlives both.
"""

from mcp_app.models.cancellation import AppendOnlyError, AuditDay, Cancellation, CancellationQuerySet
from mcp_app.models.change_version import ChangeVersion
from mcp_app.models.day_tally import DayTally
from mcp_app.models.listen_stream import ListenStream
from mcp_app.models.process import Process
from mcp_app.models.read_question import ReadQuestion
from mcp_app.models.request import CancelledRequest, InFlightRequest, Request
from mcp_app.models.request_event import RequestEvent
from mcp_app.models.session import Session
from mcp_app.models.tally import Tally
from mcp_app.models.token import Token
from mcp_app.models.tool import Tool

__all__ = (
    "AppendOnlyError",
    "AuditDay",
    "Cancellation",
    "CancellationQuerySet",
    "CancelledRequest",
    "ChangeVersion",
    "DayTally",
    "InFlightRequest",
    "ListenStream",
    "Process",
    "ReadQuestion",
    "Request",
    "RequestEvent",
    "Session",
    "Tally",
    "Token",
    "Tool",
)
