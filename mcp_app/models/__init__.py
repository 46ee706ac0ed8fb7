"""The models of this app.

    request         requests, and proxy models for the admin's lists
    request_ids     the ids of requests, which sort by time
    request_event   the history of a request
    cancellation    the audit of cancellations
    audit_triggers  database triggers that protect sealed audit rows
    tool            administrators' overrides of a tool's options
    session         sessions of legacy clients
    read_question   questions of prompts and resources to legacy clients
    listen_stream   open listen streams
    token           bearer tokens, stored as digests
    process         live processes
    change_version  counters of changes of which clients are notified
    tally           counts of ended calls by the hour
    day_tally       counts of ended calls by the day
    row             the base class of all models
    json_fields     the JSON columns
    exact_text      text that is compared exactly
    utc_date_time   times that are aware, whether or not the site uses time zones

Only `lifecycle` writes the status of a request. Rows name users and requests by value and not by foreign key. So
they can be stored in a database of their own, and the audit remains when a user or a request is deleted.
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
