"""The app's settings: one dictionary `MCP` in the site's settings module, its defaults and their units.

Read through `settings.NAME`; nothing is read at import. Refuses unknown names, so that a typo is an error.
"""

from typing import Any

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

KIB = 1024
MIB = 1024 * KIB


class Defaults:
    """Every setting with its default. Durations are seconds, sizes bytes, unless a name says otherwise."""

    DATABASE: str = "default"
    """Alias of the database that holds this app's rows (see `databases.MCPRouter`)."""
    SERVER_NAME: str = "django-mcp-app"
    SERVER_TITLE: str | None = None
    SERVER_VERSION: str = "0.1.0"
    INSTRUCTIONS: str | None = None
    """What `server/discover` tells a model about this server."""

    PUBLIC_URL: str | None = None
    """Where users reach the site, as `https://example.com`: for the pages that tools send them to."""
    ALLOWED_HOSTS: list[str] | None = None
    """Host headers served; None follows Django's ALLOWED_HOSTS (and loopback names under DEBUG)."""
    ALLOWED_ORIGINS: list[str] = []
    """Exact browser origins served, as `https://example.com`; loopback origins are added under DEBUG."""
    ALLOW_ANONYMOUS: bool = False
    """Serve calls that carry no principal."""
    AUTHENTICATOR: str | None = None
    """Dotted path of the site's function that says who asks: from an `auth.connection.HTTPConnection` a Django user, an
    `auth.principal.Principal` or None. A plain function: it runs in a thread, may use the database, and bounds what
    else it waits for."""
    AUTHENTICATION_TIMEOUT: float = 10.0

    MAX_BODY_BYTES: int = 4 * MIB
    MAX_DEPTH: int = 64
    MAX_RESULT_BYTES: int = 4 * MIB
    """A larger result becomes an `isError` that says so."""
    MAX_OPEN_REQUESTS_PER_PRINCIPAL: int = 100
    """Calls that a client waits for in one server process; as many may wait for answers to what they asked."""
    MAX_LISTEN_STREAMS: int = 1024
    MAX_LISTEN_STREAMS_PER_PRINCIPAL: int = 10
    MAX_UNSENT_BYTES: int = 1 * MIB
    """What may wait for a slow reader of one stream before the stream is ended."""
    PAGE_SIZE: int = 100
    LIST_TTL_MS: int = 5_000

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

    DEFAULT_TIME_LIMIT: float = 3600.0
    """How long a tool may run unless it says otherwise."""
    MAX_QUEUE_SECONDS: float = 600.0
    """How long a request may wait for a worker before it is cancelled, cause deadline."""
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
    MAX_TASK_SUBSCRIPTIONS: int = 100
    """Tasks that one listen stream may watch."""
    REPUBLISH_AFTER: float = 10.0
    """A queued row that nobody claimed for this long is published again."""
    COOPERATIVE_GRACE: float = 0.1
    """From a cancellation to the interrupt."""
    HARD_GRACE: float = 5.0
    """From a cancellation to the kill."""
    QUEUE: str = "mcp"
    """The Celery queue for tools that name none."""
    PUBLISH_TIMEOUT: float = 2.0

    HEARTBEAT_INTERVAL: float = 2.0
    LOST_AFTER: float = 10.0
    """Silence of a process after which its work is declared lost."""
    SUPERVISION_INTERVAL: float = 2.0
    DRAIN_SECONDS: float = 5.0
    """What running calls are given at shutdown before they are cancelled."""

    EVENT_BURST: int = 50
    EVENT_RATE: float = 100.0
    """Token bucket per request for progress and log events: burst, then events a second."""
    LOG_LEVEL: str = "INFO"
    """From which level on the standard `logging` in a tool reaches its client and its row."""
    MAX_REASON_CHARS: int = 1024

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

    def reload(self) -> None:
        self.__dict__.clear()

    @staticmethod
    def _site() -> dict[str, Any]:
        values: dict[str, Any] = getattr(django_settings, "MCP", {})
        unknown = sorted(name for name in values if not hasattr(Defaults, name))
        if unknown:
            raise ImproperlyConfigured(f"MCP has no setting {', '.join(unknown)}; mcp_app/conf.py lists the names.")
        return values


settings = Settings()


def _reload(*, setting: str, **kwargs: Any) -> None:
    if setting == "MCP":
        settings.reload()


setting_changed.connect(_reload)
