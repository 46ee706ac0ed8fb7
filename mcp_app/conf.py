"""The app's settings: one dictionary `MCP` in the site's settings module, its defaults and their units.

Read through `settings.NAME`; nothing is read at import. Refuses unknown names, so that a typo is an error.
"""

from collections.abc import Mapping
from typing import Any, Final

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from mcp_app.endpoint_settings import EndpointSettings, check_names

KIB = 1024
MIB = 1024 * KIB
DEFAULT_ENDPOINT: Final = "default"
"""The endpoint of a site that names none, and of what does not say where it is offered."""


class Defaults:
    """Every setting with its default. Durations are seconds, sizes bytes, unless a name says otherwise."""

    DATABASE: str = "default"
    """Alias of the database that holds this app's rows (see `databases.MCPRouter`)."""
    SERVER_NAME: str = "django-mcp-app"
    """What clients know this server by."""
    SERVER_TITLE: str | None = None
    """What people see in its place."""
    SERVER_VERSION: str = "0.1.0"
    """Of the site's own, as it is told to clients: not the protocol's, and nothing here goes by it."""
    SERVER_ICONS: list[dict[str, Any]] = []
    """MCP Icon objects, as `{"src": "https://example.com/mcp.png", "mimeType": "image/png", "sizes": ["48x48"]}`. Every
    client shows PNG and JPEG."""
    INSTRUCTIONS: str | None = None
    """What `server/discover` tells a model about this server."""

    ENDPOINTS: dict[str, dict[str, Any]] = {}
    """Several endpoints on one site, by name: each with its PATH, and what it has otherwise than it is here, of
    `endpoint_settings.PER_ENDPOINT`. None: one, named "default", where `mcp_application` puts it. `docs/access.md`."""
    PATH: str = "/mcp"
    """Where the one endpoint is, for what people are told; each of several has its own."""
    PERMISSIONS: list[str] = []
    GROUPS: list[str] = []
    """What somebody needs to be let in at all: all of these permissions (`app_label.codename`), one of these groups."""

    PUBLIC_URL: str | None = None
    """Where users reach the site, as `https://example.com`: for the pages that tools send them to."""
    ALLOWED_HOSTS: list[str] | None = None
    """Host headers served; None follows Django's ALLOWED_HOSTS (and loopback names under DEBUG)."""
    ALLOWED_ORIGINS: list[str] = []
    """Exact browser origins served, as `https://example.com`; loopback origins are added under DEBUG."""
    ALLOW_ANONYMOUS: bool | None = None
    """Serve calls without a credential: True: everybody's; False: nobody's; None: those that come from this machine and
    through no proxy, under DEBUG and where no AUTHENTICATOR is named."""
    AUTHENTICATOR: str | None = None
    """Dotted path of the site's function that says who asks: from an `auth.connection.HTTPConnection` a Django user, an
    `auth.principal.Principal` or None. A plain function: it runs in a thread, may use the database, and bounds what
    else it waits for."""
    AUTHENTICATION_TIMEOUT: float = 10.0
    """How long the authenticator may take; then its caller is told to try again (503)."""
    CONFIRM_AFTER: float = 30.0
    """How long an open stream that has nothing to tell rests on one answer of the authenticator. Before it tells
    anything the authenticator is asked again, and a stream whose credential was revoked is ended."""
    IMPLIED_SCOPES: dict[str, list[str]] = {}
    """Narrower scopes that a broader one implies, as `{"files:write": ["files:read"]}`."""

    OAUTH_RESOURCE: str | None = None
    """The endpoint's URI as clients reach it, such as `https://example.com/mcp`: what tokens name as their audience.
    With OAUTH_ISSUERS the endpoint says of itself how to get a token; `docs/access.md`."""
    OAUTH_ISSUERS: list[str] = []
    """Authorization servers whose tokens are taken, exactly as their `iss` has them."""
    OAUTH_REQUIRED_SCOPES: list[str] = []
    """Without which a token is good for nothing here; clients are told to ask for them."""
    OAUTH_AUDIENCES: list[str] = []
    """What tokens name as their audience where the authorization server has names of its own; none: OAUTH_RESOURCE."""
    OAUTH_USER: str | None = None
    """Dotted path of a function: from the claims of a good token the site's user for `ctx.user`, or None."""
    OAUTH_TIMEOUT: float = 3.0
    """How long the authorization server may take for an answer as a whole."""
    OAUTH_JWKS_URLS: dict[str, str] = {}
    """For `auth.oauth.jwts.bearer`: by issuer the address of its keys."""
    OAUTH_ALGORITHMS: list[str] = ["RS256", "PS256", "ES256", "EdDSA"]
    """By which a JWT may be signed; none with a shared secret can be allowed."""
    OAUTH_TOKEN_TYPES: list[str] = ["at+jwt", "JWT"]
    """What a JWT may have as `typ`. `["at+jwt"]` where the authorization server writes that (RFC 9068)."""
    OAUTH_INTROSPECTION_URL: str | None = None
    """For `auth.oauth.introspection.bearer`: where the one issuer is asked about tokens, as the client whose id and
    secret follow."""
    OAUTH_CLIENT_ID: str | None = None
    OAUTH_CLIENT_SECRET: str | None = None
    OAUTH_INTROSPECTION_CACHE: float = 5.0
    """How long its answer is good for, at most 60: for so long a revoked token still opens. 0: each request asks."""

    MAX_BODY_BYTES: int = 4 * MIB
    """Of one request; a larger one is a 413. A front's own limit agrees with it, as nginx's `client_max_body_size`."""
    MAX_DEPTH: int = 64
    """Levels of arrays and objects in the JSON of a request."""
    MAX_RESULT_BYTES: int = 4 * MIB
    """A larger result becomes an `isError` that says so."""
    MAX_OPEN_REQUESTS_PER_PRINCIPAL: int = 100
    """Calls that a caller waits for, in all server processes together; as many may wait for answers to what they asked,
    and as many reads of resources and prompts be under way in one process."""
    MAX_OPEN_REQUESTS: int = 2_000
    """Requests that one server process serves at once, listen streams apart."""
    MAX_QUEUED_REQUESTS: int = 1_000
    """Calls of all callers that wait for a worker."""
    REQUEST_BURST: int = 500
    REQUEST_RATE: float = 200.0
    """Token bucket per caller for HTTP requests and notifications of all kinds: burst, then requests a second, in one
    server process. Anonymous callers have one for each address."""
    MAX_HELD_BODY_BYTES: int = 64 * MIB
    """Of request bodies that are arriving at one server process."""
    BODY_TIMEOUT: float = 60.0
    """How long a request's body may take to arrive, from its start on, however steadily it comes."""
    HEAD_TIMEOUT: float = 20.0
    """The same for what comes before the body, a connection's silence included (`mcp serve`; elsewhere the front's)."""
    MAX_CONNECTIONS: int = 4_096
    """That `mcp serve` holds at once; elsewhere the front's."""
    RETRY_AFTER: float = 1.0
    """Seconds after which a client that is refused for load is told to try again, where nothing better is known."""
    MAX_LISTEN_STREAMS: int = 1024
    """Of `subscriptions/listen`, and GET streams of older clients, that one server process holds at once."""
    MAX_LISTEN_STREAMS_PER_PRINCIPAL: int = 10
    """Of these those of one caller, in one server process."""
    MAX_UNSENT_BYTES: int = 1 * MIB
    """What may wait for a slow reader of one stream before the stream is ended."""
    VANISHED_AFTER: float = 30.0
    """Silence of a client's machine after which `mcp serve` ends its connection, and with it what that waited for; of
    other servers `docs/deployment.md` says what does."""
    STALL_TIMEOUT: float = 30.0
    """How long one write may wait for a client that does not read, before that is taken for gone."""
    PAGE_SIZE: int = 100
    """Tools, resources, templates or prompts in one answer to a list; a cursor brings the next."""
    LIST_TTL_MS: int = 5_000
    """How long a client of 2026-07-28 may keep a list, and what `server/discover` says, in milliseconds."""

    MAX_SESSIONS_PER_PRINCIPAL: int = 1_000
    """Of clients that open with `initialize`; one more ends the one that was silent for longest."""
    SESSION_IDLE_SECONDS: float = 86_400.0
    """Silence after which a session ends."""
    ABANDONED_AFTER: float = 120.0
    """How long a session's call goes on that no connection follows, before it is cancelled."""
    SESSIONLESS_DISCONNECT_CANCELS: bool = True
    """Whether a client of a revision with `initialize` that names no session stops its call by leaving: nobody could
    come back for the result. False: as those revisions have it, the call goes on to its end or its time limit."""
    RETRY_MS: int = 1_000
    """When a client whose stream was cut is to come back for the rest."""
    CUT_AFTER: float | None = None
    """How long a session's call holds one connection before its client is to come back for the rest, from 2025-11-25
    on: for fronts that end what lasts. None: to the end of the call."""

    READ_TIME_LIMIT: float = 30.0
    """How long a resource, a prompt or a completion may take; they run in the server process."""
    READ_THREADS: int = 8
    """How many of those run at once in one server process."""
    COMPLETION_BURST: int = 50
    COMPLETION_RATE: float = 20.0
    """Token bucket per caller for completions: burst, then completions a second, in one server process."""
    MAX_RESOURCE_SUBSCRIPTIONS: int = 100
    """Resources that one listen stream may watch."""

    SSE_AFTER: float = 2.0
    """A call still running after this is answered as an event stream."""
    KEEP_ALIVE: float = 15.0
    """Silence on an open stream after which a comment is sent."""
    VITAL_SIGNS_INTERVAL: float = 2.0
    """How often a call tells a client that asked for debug messages whether its worker is alive, from then on."""
    POLL_INTERVAL: float = 1.0
    """How often a waiting server process looks again without being woken."""
    POLL_INTERVAL_WITHOUT_WAKE_UP: float = 0.05
    """The same while calls wait and no wake-up can reach this process."""

    TOOL_RATE: str | None = None
    """How often one caller may call each tool that does not say so itself, as "10/m"; None: as often as the rest
    allows. Counted in Django's cache."""
    TOOL_CONCURRENCY: int | None = None
    """How many calls of each such tool one caller may have open; None: MAX_OPEN_REQUESTS_PER_PRINCIPAL in all."""
    DEFAULT_TIME_LIMIT: float = 3600.0
    """How long a tool may run unless it says otherwise."""
    MAX_QUEUE_SECONDS: float = 600.0
    """How long a request may wait for a worker before it is cancelled, cause deadline."""
    QUEUE_ALARM_AFTER: float | None = 60.0
    """Waiting for a worker after which a queue's oldest request is an error in the log of each process that supervises,
    once in as many seconds. None: no alarm."""
    MAX_INPUT_SECONDS: float = 1800.0
    """How long a question to a client waits for its answer: then a call is cancelled, cause deadline, and a prompt or a
    resource is to be asked for anew."""
    MAX_REQUEST_STATE_BYTES: int = 256 * KIB
    """What a prompt or a resource that asks may have its client carry, or for an older client its server process keep:
    questions, answers, what was done once."""
    TASK_AFTER: float = 5.0
    """How long a client waits for a tool that becomes a task when slow, unless the tool says otherwise."""
    TASK_TTL: float | None = 86_400.0
    """How long a task can be asked for after it was made; None: always. Work that goes on by then is cancelled, cause
    deadline; the row stays."""
    TASK_POLL_INTERVAL: float = 1.0
    """How often a client is told to ask for a task."""
    MAX_OPEN_TASKS_PER_PRINCIPAL: int = 100
    """Tasks of a caller that have not ended, in all server processes together."""
    MAX_TASK_SUBSCRIPTIONS: int = 100
    """Tasks that one listen stream may watch."""
    MAX_CHILDREN: int = 100
    """Calls that one run of a tool may have started and that have not ended."""
    MAX_CHILDREN_PER_PRINCIPAL: int = 1_000
    """The same of all tools that run for one principal."""
    MAX_CHILD_DEPTH: int = 3
    """How far calls may start one another: what a client's call starts is at 1; 0: no tool starts any."""
    REPUBLISH_AFTER: float = 10.0
    """A queued row that nobody claimed for this long is published again."""
    COOPERATIVE_GRACE: float = 0.1
    """From a cancellation to the interrupt."""
    HARD_GRACE: float = 5.0
    """From a cancellation to the kill."""
    QUEUE: str = "mcp"
    """The Celery queue for tools that name none."""
    PUBLISH_TIMEOUT: float = 1.5
    """How long the broker may take for one message; a call is refused when it takes longer."""
    ENDING_TIMEOUT: float = 600.0
    """How long a worker keeps trying to store how a call ended while the database is away; then the call is lost."""
    DATABASE_TIMEOUT: float = 15.0
    """How long a request waits for the database before its client is told that it is not reachable (503). A call that
    is stored after all is cancelled."""

    READY_TIMEOUT: float = 2.0
    """How long a readiness probe waits for the databases and the broker: what has not answered by then has failed."""

    HEARTBEAT_INTERVAL: float = 2.0
    """How often each process says that it lives, and with it its calls; less than half of LOST_AFTER."""
    LOST_AFTER: float = 10.0
    """Silence of a process after which its work is declared lost."""
    SUPERVISION_INTERVAL: float = 2.0
    """How often somebody looks for what is lost or left: processes take turns at it. Where nothing happens, seldom."""
    DRAIN_SECONDS: float = 5.0
    """What running calls are given at shutdown before they are cancelled."""

    EVENT_BURST: int = 50
    EVENT_RATE: float = 100.0
    """Token bucket per request for progress and log events: burst, then events a second."""
    LOG_LEVEL: str = "INFO"
    """From which level on the standard `logging` in a tool reaches its client and its row."""
    MAX_REASON_CHARS: int = 1024
    """What is kept of the reason for a cancellation; more than 1,024 never is."""

    MIDDLEWARE: list[str] = []
    """Dotted paths of factories, as of Django's middleware: from `get_result` each makes a function of a `ToolContext`
    that returns what the tool does. Around the tool's body, in the worker; the first is outermost."""
    REDACT: str | None = None
    """Dotted path of the site's function that says what is kept of what calls are given and say: from a kind, a tool's
    name and a value it makes what is stored instead (`lifecycle.redaction`). A plain function, called in threads and in
    tools; it bounds its own time."""

    REQUEST_RETENTION_DAYS: int | None = 90
    """How long `mcp purge` leaves a request, from its end; None: always."""
    AUDIT_RETENTION_DAYS: int | None = 180
    """The same of attempts to cancel, from the day they were sealed: at least as long as requests; None: always."""
    AUDIT_KEY: str | None = None
    """What the audit is signed and sealed with: the same in every process, and nowhere in the database. None: Django's
    SECRET_KEY, and SECRET_KEY_FALLBACKS to verify what is older."""


class Settings:
    """`settings.NAME`: the site's value, or the default."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Defaults, name):
            raise AttributeError(f"there is no setting MCP[{name!r}]")
        value = self._site().get(name, getattr(Defaults, name))
        self.__dict__[name] = value
        return value

    def at(self, endpoint: str) -> EndpointSettings:
        """The same, as they are for one endpoint. Raises ImproperlyConfigured where there is no such endpoint."""
        made: dict[str, EndpointSettings] = self.__dict__.setdefault("_at", {})
        if (found := made.get(endpoint)) is not None:
            return found
        if endpoint not in self.endpoints:
            raise ImproperlyConfigured(f'MCP["ENDPOINTS"] has no {endpoint!r}.')
        unshared = Defaults if self.ENDPOINTS else self
        return made.setdefault(endpoint, EndpointSettings(self, self.endpoints[endpoint], unshared=unshared))

    @property
    def endpoints(self) -> Mapping[str, Mapping[str, Any]]:
        """The site's endpoints, by name, with what each has of its own."""
        several: Mapping[str, Mapping[str, Any]] = self.ENDPOINTS
        return several or {DEFAULT_ENDPOINT: {}}

    def reload(self) -> None:
        self.__dict__.clear()

    @staticmethod
    def _site() -> dict[str, Any]:
        values: dict[str, Any] = getattr(django_settings, "MCP", {})
        unknown = sorted(name for name in values if not hasattr(Defaults, name))
        if unknown:
            raise ImproperlyConfigured(f"MCP has no setting {', '.join(unknown)}; mcp_app/conf.py lists the names.")
        check_names(values.get("ENDPOINTS", {}))
        return values


settings = Settings()


def _reload(*, setting: str, **kwargs: Any) -> None:
    if setting == "MCP":
        settings.reload()


setting_changed.connect(_reload)
