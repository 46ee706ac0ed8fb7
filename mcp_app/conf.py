"""The app's settings: one dictionary `MCP` in the site's settings module, with defaults and units.

Read a setting as `settings.NAME`. Nothing is read at import. An unknown name is an error, so that
typos are found.
"""

from collections.abc import Mapping
from typing import Any, Final

from celery import current_app
from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from mcp_app.endpoint_settings import EndpointSettings, check_names

KIB = 1024
MIB = 1024 * KIB
_NAMES_OF_ANY_PROJECT: Final = frozenset({"conf", "config", "core", "project", "settings", "urls"})
"""Package names that project templates give to every project."""
DEFAULT_ENDPOINT: Final = "default"
"""The endpoint of a site that defines none, and of tools that name no endpoint."""


class Defaults:
    """Every setting with its default.

    Durations are in seconds and sizes in bytes unless the name says otherwise.
    """

    DATABASE: str = "default"
    """Alias of the database that holds this app's rows. If it is not set and `default` is an SQLite
    file, they are in a file of their own beside it, with the alias `mcp`."""
    SERVER_NAME: str | None = None
    """The name by which clients know this server. `None`: the project's name, which is the top
    package of `ROOT_URLCONF`, or the name of the site's Celery app if that package has a name such
    as `config`."""
    SERVER_TITLE: str | None = None
    """The display name of this server for people."""
    SERVER_VERSION: str = "0.1.0"
    """The version of your site, which clients may show. Nothing else depends on it."""
    SERVER_ICONS: list[dict[str, Any]] = []
    """MCP Icon objects, such as `{"src": "https://example.com/mcp.png", "mimeType": "image/png",
    "sizes": ["48x48"]}`. Every client can show PNG and JPEG."""
    INSTRUCTIONS: str | None = None
    """Instructions that `server/discover` gives to the model about this server."""

    ENDPOINTS: dict[str, dict[str, Any]] = {}
    """Several endpoints on one site, by name. Each has its own `PATH`, and may override the
    settings that `docs/how-to/access.md` names. If empty, there is one endpoint, named "default",
    at the path that `mcp_application` is given."""
    PATH: str = "/mcp"
    """The path of the only endpoint, for addresses that people are shown. With `ENDPOINTS`, each
    has its own."""
    PERMISSIONS: list[str] = []
    """Permissions (`app_label.codename`) that a user must have, all of them, to use the endpoint at
    all."""
    GROUPS: list[str] = []
    """Groups of which a user must be in at least one to use the endpoint at all."""

    PUBLIC_URL: str | None = None
    """Address at which users reach the site, such as `https://example.com`; for the pages that
    tools send them to."""
    ALLOWED_HOSTS: list[str] | None = None
    """Accepted Host headers. `None`: Django's `ALLOWED_HOSTS`, and loopback names under `DEBUG`."""
    ALLOWED_ORIGINS: list[str] = []
    """Browser origins whose pages may call the endpoint and read its responses (CORS), written
    exactly, such as `https://example.com`. Under `DEBUG`, loopback origins are added."""
    ALLOW_ANONYMOUS: bool | str | None = None
    """Which calls without a credential are accepted. `True`: all. `False`: none. `"local"`: those
    from this machine that came through no proxy. `None`: as `"local"` under `DEBUG` if no
    `AUTHENTICATOR` is set, otherwise none."""
    AUTHENTICATOR: str | None = None
    """Dotted path of the site's function that identifies the caller. It takes a
    connection and returns a Django user, a `Principal` or `None` (`docs/how-to/access.md`). It must
    be a plain function: it runs in a thread and may use the database. It must limit the time of
    anything else that it waits for."""
    AUTHENTICATION_TIMEOUT: float = 10.0
    """How long the authenticator may take. After that, the caller is asked to try again (503)."""
    CONFIRM_AFTER: float = 30.0
    """How long an open response relies on one answer of the authenticator. The authenticator also
    runs before each message of a listen stream and before the result of a call or a read. If it no
    longer accepts the caller, the response ends and its call is cancelled."""
    IMPLIED_SCOPES: dict[str, list[str]] = {}
    """Narrower scopes that a broader one implies, such as `{"files:write": ["files:read"]}`."""

    OAUTH_RESOURCE: str | None = None
    """The endpoint's URI as clients reach it, such as `https://example.com/mcp`: the audience that
    tokens must name. With `OAUTH_ISSUERS`, the endpoint publishes how to get a token. See
    `docs/how-to/access.md`."""
    OAUTH_ISSUERS: list[str] = []
    """Authorization servers whose tokens are accepted, exactly as in the tokens' `iss`."""
    OAUTH_REQUIRED_SCOPES: list[str] = []
    """Scopes that every token must have. Clients are asked to request them."""
    OAUTH_AUDIENCES: list[str] = []
    """The audiences that tokens may name, if the authorization server uses names of its own. Empty:
    `OAUTH_RESOURCE`."""
    OAUTH_USER: str | None = None
    """Dotted path of a function that takes the claims of a valid token and returns the user for
    `ctx.user`, or `None`."""
    OAUTH_TIMEOUT: float = 3.0
    """How long a request to the authorization server may take in total."""
    OAUTH_JWKS_URLS: dict[str, str] = {}
    """For `auth.oauth.jwts.bearer`: the address of the keys of each issuer."""
    OAUTH_ALGORITHMS: list[str] = ["RS256", "PS256", "ES256", "EdDSA"]
    """Algorithms that may sign a JWT. Algorithms with a shared secret cannot be allowed."""
    OAUTH_TOKEN_TYPES: list[str] = ["at+jwt", "JWT"]
    """Accepted values of a JWT's `typ`. Use `["at+jwt"]` if the authorization server writes it (RFC
    9068)."""
    OAUTH_INTROSPECTION_URL: str | None = None
    """For `auth.oauth.introspection.bearer`: the introspection address of the only issuer. The
    server authenticates there with the client id and secret below."""
    OAUTH_CLIENT_ID: str | None = None
    """The client id for the introspection address."""
    OAUTH_CLIENT_SECRET: str | None = None
    """The client secret for the introspection address."""
    OAUTH_INTROSPECTION_CACHE: float = 5.0
    """How long an introspection result is cached, at most 60. A revoked token stays valid for that
    long. 0: no cache."""

    MAX_BODY_BYTES: int = 4 * MIB
    """Maximum size of one request; a larger one gets a 413. A proxy's own limit, such as nginx's
    `client_max_body_size`, should agree with it."""
    MAX_DEPTH: int = 64
    """Maximum nesting of arrays and objects in the JSON of a request."""
    JSON_TEXT_ARGUMENTS: bool = True
    """Whether an argument that is sent as JSON text (`"5"`, `"[1]"`) is parsed if the tool's schema
    allows no string. A tool's own `json_text` takes precedence."""
    MAX_RESULT_BYTES: int = 4 * MIB
    """Maximum size of a result. A larger one is replaced by an `isError` result that says so."""
    MAX_OPEN_REQUESTS_PER_PRINCIPAL: int = 100
    """Calls that one caller may have open, in all server processes together. The same limit applies
    to calls that wait for a client's input, and to reads of resources and prompts in one server
    process."""
    MAX_OPEN_REQUESTS: int = 2_000
    """Requests that one server process serves at once, without listen streams."""
    ANONYMOUS_LIMIT_FACTOR: int = 5
    """Multiplies the limits of one caller (`MAX_…_PER_PRINCIPAL`) for all anonymous callers
    together: open calls, reads, listen streams, sessions and tasks. One anonymous caller is an IPv4
    address or an IPv6 /64."""
    MAX_QUEUED_REQUESTS: int = 1_000
    """Calls of all callers that may wait for a worker."""
    REQUEST_BURST: int = 500
    """See `REQUEST_RATE`."""
    REQUEST_RATE: float = 200.0
    """Token bucket for each caller, for HTTP requests and notifications of all kinds: burst, then
    requests a second, in one server process."""
    MAX_HELD_BODY_BYTES: int = 64 * MIB
    """Maximum size of all request bodies that one server process is receiving."""
    BODY_TIMEOUT: float = 60.0
    """How long a request's body may take to arrive, from the start of the request, even if data
    keeps coming."""
    HEAD_TIMEOUT: float = 20.0
    """How long the request line and headers may take, including an idle connection. For `mcp
    serve`; with other servers, this is the proxy's task."""
    MAX_CONNECTIONS: int = 4_096
    """Connections of `mcp serve` at once, as far as its limit of open files allows. With other
    servers, this is the proxy's task."""
    RETRY_AFTER: float = 1.0
    """Seconds after which a client that is refused because of load should try again, if no better
    estimate is known."""
    MAX_LISTEN_STREAMS: int = 1024
    """`subscriptions/listen` streams, and GET streams of older clients, that one server process
    holds at once."""
    MAX_LISTEN_STREAMS_PER_PRINCIPAL: int = 10
    """The same limit for one caller, in one server process."""
    MAX_UNSENT_BYTES: int = 1 * MIB
    """Unsent data of one stream with a slow reader, after which the stream is ended."""
    VANISHED_AFTER: float = 30.0
    """Seconds without a sign of life from a client's machine after which `mcp serve` ends the
    connection and the requests on it. For other servers, see `docs/how-to/deployment.md`."""
    STALL_TIMEOUT: float = 30.0
    """How long one write may wait for a client that does not read, before the client counts as
    disconnected."""
    PAGE_SIZE: int = 100
    """Tools, resources, templates or prompts on one page of a list. A cursor leads to the next
    page."""
    LIST_TTL_MS: int = 5_000
    """How long a client of 2026-07-28 may cache a list, and the result of `server/discover`, in
    milliseconds."""

    MAX_SESSIONS_PER_PRINCIPAL: int = 1_000
    """Sessions (of clients that open with `initialize`) for one caller. One more ends the session
    that was idle longest."""
    SESSION_IDLE_SECONDS: float = 86_400.0
    """Idle time after which a session ends."""
    ABANDONED_AFTER: float = 120.0
    """How long a session's call continues without a connection before it is cancelled."""
    SESSIONLESS_DISCONNECT_CANCELS: bool = True
    """Whether a call is cancelled on disconnect if its client uses a revision with `initialize` but
    no session, because no client could fetch the result later. `False`: the call continues to its
    end or its time limit, as those revisions specify."""
    RETRY_MS: int = 1_000
    """Milliseconds after which a client whose stream was cut should reconnect."""
    CUT_AFTER: float | None = None
    """How long a session's call holds one connection before its client must reconnect for the rest,
    from 2025-11-25 on. For proxies that end long responses. `None`: until the call ends."""

    READ_TIME_LIMIT: float = 30.0
    """How long a resource, a prompt or a completion may take. They run in the server process."""
    READ_THREADS: int = 8
    """How many resources, prompts and completions run at once in one server process."""
    COMPLETION_BURST: int = 50
    """See `COMPLETION_RATE`."""
    COMPLETION_RATE: float = 20.0
    """Token bucket for each caller: burst, then completions a second, in one server process."""
    MAX_RESOURCE_SUBSCRIPTIONS: int = 100
    """Resources that one listen stream may watch."""

    SSE_AFTER: float = 2.0
    """Seconds after which the response to a running call becomes an event stream."""
    KEEP_ALIVE: float = 15.0
    """Silence on an open stream after which a comment is sent."""
    VITAL_SIGNS_INTERVAL: float = 2.0
    """How often a client that asked for debug messages is notified whether the worker of its call
    is alive. Also the time before the first such message."""
    POLL_INTERVAL: float = 1.0
    """How often a waiting server process polls the database if it is not woken."""
    POLL_INTERVAL_WITHOUT_WAKE_UP: float = 0.05
    """The same interval while calls wait and no wake-up can reach this process."""

    TOOL_RATE: str | None = None
    """How often one caller may call a tool that sets no `rate`, such as `"10/m"`. Counted in
    Django's cache. `None`: no limit for a single tool."""
    TOOL_CONCURRENCY: int | None = None
    """How many calls one caller may have open of a tool that sets no `concurrency`. `None`: no
    limit for a single tool, only `MAX_OPEN_REQUESTS_PER_PRINCIPAL`."""
    DEFAULT_TIME_LIMIT: float = 3600.0
    """How long a tool may run if it sets no `time_limit`."""
    MAX_QUEUE_SECONDS: float = 600.0
    """How long a request may wait for a worker before it is cancelled with the cause deadline."""
    QUEUE_ALARM_AFTER: float | None = 60.0
    """Age of a queue's oldest waiting request from which each supervising process logs an error,
    once per this interval. `None`: no alarm."""
    MAX_INPUT_SECONDS: float = 1800.0
    """How long a question to a client waits for its answer. After that, a call is cancelled with
    the cause deadline, and a prompt or resource must be requested anew."""
    MAX_REQUEST_STATE_BYTES: int = 256 * KIB
    """Maximum size of the questions, answers and results of `once` of a prompt or resource that
    asks its user. The client carries them; for an older client, its server process keeps them."""
    TASK_AFTER: float = 5.0
    """How long a client waits for a tool that becomes a task when slow, if the tool sets no
    `task_after`."""
    TASK_TTL: float | None = 86_400.0
    """How long a task can be queried after it was created. `None`: always. If its work is still
    going on by then, it is cancelled with the cause deadline. The row stays."""
    TASK_POLL_INTERVAL: float = 1.0
    """The interval at which clients should poll a task."""
    MAX_OPEN_TASKS_PER_PRINCIPAL: int = 100
    """Open tasks of one caller, in all server processes together."""
    MAX_TASK_SUBSCRIPTIONS: int = 100
    """Tasks that one listen stream may watch."""
    MAX_CHILDREN: int = 100
    """Open calls that one run of a tool may have started."""
    MAX_CHILDREN_PER_PRINCIPAL: int = 1_000
    """The same limit for all tools that run for one caller."""
    MAX_CHILD_DEPTH: int = 3
    """How deep calls may start one another. A call that a client's call starts is at depth 1. 0:
    tools start no calls."""
    REPUBLISH_AFTER: float = 10.0
    """Seconds after which a queued request that no worker has claimed is published again."""
    COOPERATIVE_GRACE: float = 0.1
    """Seconds from a cancellation to the interrupt."""
    HARD_GRACE: float = 5.0
    """Seconds from a cancellation to the kill."""
    QUEUE: str = "mcp"
    """The Celery queue for tools that set no `queue`."""
    WORKERS_TAKE_TOOLS: bool = True
    """Whether a worker that is started without `-Q`, as by `celery -A proj worker`, also consumes
    the queues of tools. If not, only `manage.py mcp worker` and workers that name such a queue run
    tools."""
    PUBLISH_TIMEOUT: float = 1.5
    """How long the broker may take for one message. If it takes longer, the call is refused."""
    ENDING_TIMEOUT: float = 600.0
    """How long a worker keeps trying to store the end of a call while the database is down. After
    that, the call is lost."""
    DATABASE_TIMEOUT: float = 15.0
    """How long a request waits for the database before the client gets a 503. A call that is stored
    after that is cancelled."""

    READY_TIMEOUT: float = 2.0
    """How long a readiness probe waits for each database and the broker. One that has not responded
    by then has failed."""

    HEARTBEAT_INTERVAL: float = 2.0
    """How often each process records a heartbeat for itself and its calls. Must be less than half
    of `LOST_AFTER`."""
    LOST_AFTER: float = 10.0
    """Seconds without a heartbeat after which the work of a process is declared lost."""
    SUPERVISION_INTERVAL: float = 2.0
    """How often one of the processes, in turn, looks for lost and abandoned work. On an idle site,
    less often."""
    DRAIN_SECONDS: float = 5.0
    """Time that running calls have at shutdown before they are cancelled."""

    EVENT_BURST: int = 50
    """See `EVENT_RATE`."""
    EVENT_RATE: float = 100.0
    """Token bucket for each request, for progress and log events: burst, then events a second."""
    LOG_LEVEL: str = "INFO"
    """Minimum level at which the standard `logging` of a tool is sent to the client and stored with
    the request."""
    MAX_REASON_CHARS: int = 1024
    """Maximum length of a cancellation's stored reason. Values above 1,024 have no effect."""

    MIDDLEWARE: list[str] = []
    """Dotted paths of middleware factories, in the manner of Django's middleware. Each takes
    `get_result` and returns a function that takes a `ToolContext` and returns the tool's result.
    They run in the worker, around the tool's function. The first is outermost."""
    REDACT: str | None = None
    """Dotted path of the site's function that decides what is stored of arguments, results and
    messages. It takes a kind, a tool's name and a value, and returns the value to store
    (`docs/how-to/redaction.md`). It must be a plain function, is called in threads and in tools, and
    must limit its own time."""

    REQUEST_RETENTION_DAYS: int | None = 90
    """How long `mcp purge` keeps a request after its end. `None`: for ever."""
    AUDIT_RETENTION_DAYS: int | None = 180
    """How long `mcp purge` keeps attempts to cancel, from the day they were sealed: at least as
    long as requests. `None`: for ever."""
    AUDIT_KEY: str | None = None
    """The key that signs and seals the audit. It must be the same in every process, and must not be
    in the database. `None`: Django's `SECRET_KEY`, and `SECRET_KEY_FALLBACKS` to verify older
    entries."""


class Settings:
    """Return a setting as `settings.NAME`: the site's value, or the default.

    Values are cached until Django's `setting_changed` signal reports that `MCP` has changed. Raises
    `AttributeError` for a name that is not in `Defaults`, and `ImproperlyConfigured` if the site's
    `MCP` has such a name.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Defaults, name):
            raise AttributeError(f"there is no setting MCP[{name!r}]")
        value = self._site().get(name, getattr(Defaults, name))
        self.__dict__[name] = value
        return value

    def at(self, endpoint: str) -> EndpointSettings:
        """Return the settings of one endpoint, whose own values take precedence over the site's.

        Raises `ImproperlyConfigured` if there is no such endpoint.
        """
        made: dict[str, EndpointSettings] = self.__dict__.setdefault("_at", {})
        if (found := made.get(endpoint)) is not None:
            return found
        if endpoint not in self.endpoints:
            raise ImproperlyConfigured(f'MCP["ENDPOINTS"] has no {endpoint!r}.')
        unshared = Defaults if self.ENDPOINTS else self
        return made.setdefault(endpoint, EndpointSettings(self, self.endpoints[endpoint], unshared=unshared))

    @property
    def endpoints(self) -> Mapping[str, Mapping[str, Any]]:
        """The site's endpoints by name, each with its own settings."""
        several: Mapping[str, Mapping[str, Any]] = self.ENDPOINTS
        return several or {DEFAULT_ENDPOINT: {}}

    def reload(self) -> None:
        """Forget the cached values, so that they are read again."""
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


def server_name(endpoint: str) -> str:
    """Return the name by which clients know the server at an endpoint.

    Raises `ImproperlyConfigured` if there is no such endpoint.
    """
    return str(settings.at(endpoint).SERVER_NAME or _project_name())


def _project_name() -> str:
    package = str(django_settings.ROOT_URLCONF).partition(".")[0]
    if package in _NAMES_OF_ANY_PROJECT:
        return str(current_app.main or package)
    return package


def _reload(*, setting: str, **kwargs: Any) -> None:
    if setting == "MCP":
        settings.reload()


setting_changed.connect(_reload)
