"""Records OpenTelemetry spans, if OpenTelemetry is installed.

Otherwise all functions here do nothing.

No other module uses OpenTelemetry. The trace context is passed on in the W3C fields of
`params._meta` and of the request's row, never in Celery's headers. The site configures the provider
and the exporter.
Source: OpenTelemetry's semantic conventions for MCP; W3C Trace Context, Baggage.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span as OpenTelemetrySpan

try:
    from opentelemetry import context as contexts
    from opentelemetry import trace
    from opentelemetry.baggage.propagation import W3CBaggagePropagator
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:
    INSTALLED = False
else:
    INSTALLED = True
    # Not the propagators that the site configured: the MCP specification reserves these fields,
    # and rows store no others.
    PROPAGATORS: Final = (TraceContextTextMapPropagator(), W3CBaggagePropagator())

ERROR_TYPE: Final = "error.type"
STATUS_CODE: Final = "rpc.response.status_code"
CANCELLED: Final = "cancelled"
"""The `error.type` of work that was cancelled."""
TOOL_ERROR: Final = "tool_error"
"""The `error.type` of a result with `isError`."""
MAX_VALUE_CHARS: Final = 256


class Span:
    """A span that has begun. Without an OpenTelemetry span, its methods do nothing."""

    def __init__(self, span: "OpenTelemetrySpan | None" = None, context: "Context | None" = None) -> None:
        self._span = span
        self._context = context
        self._failed = False

    def fail(self, error_type: str, description: str = "", *, code: int | None = None) -> None:
        """Mark the span as failed.

        `code` is that of a JSON-RPC error. Only the first failure counts.
        """
        if self._span is None or self._failed:
            return
        self._failed = True
        if code is not None:
            self._span.set_attribute(STATUS_CODE, str(code))
        self._span.set_attribute(ERROR_TYPE, error_type)
        self._span.set_status(trace.StatusCode.ERROR, _exportable(description) or None)

    def carrier(self, received: Mapping[str, str]) -> dict[str, str]:
        """Return the W3C fields with which the trace continues below this span.

        Without a span, return `received`.
        """
        if self._context is None:
            return dict(received)
        fields: dict[str, str] = {}
        for propagator in PROPAGATORS:
            propagator.inject(fields, context=self._context)
        return fields


NOT_RECORDED: Final = Span()
"""The span of work that is not recorded. It is shared, because its methods change nothing."""


def is_recorded(received: Mapping[str, str]) -> bool:
    """Whether the site has configured a provider, or the client has sent a trace context."""
    return INSTALLED and (bool(received) or not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider))


@contextmanager
def span(
    name: str, attributes: Mapping[str, str], received: Mapping[str, str], *, of_peer: bool = False
) -> Iterator[Span]:
    """Record a span around the block. Its parent is the span that the W3C fields `received` name.

    `of_peer` means that a client asked for the work (kind SERVER). A span that is already current,
    such as the HTTP request's, is linked. An exception that leaves the block marks the span as
    failed.
    """
    if not is_recorded(received):
        yield NOT_RECORDED
        return
    parent = contexts.Context()
    for propagator in PROPAGATORS:
        parent = propagator.extract(received, context=parent)
    ambient = trace.get_current_span().get_span_context()
    started = trace.get_tracer("mcp_app").start_span(
        name,
        parent,
        kind=trace.SpanKind.SERVER if of_peer else trace.SpanKind.INTERNAL,
        attributes={name: _exportable(value) for name, value in attributes.items()},
        links=[trace.Link(ambient)] if ambient.is_valid else [],
    )
    context = trace.set_span_in_context(started, parent)
    token = contexts.attach(context)
    entered = Span(started, context)
    try:
        yield entered
    except BaseException as error:
        entered.fail(type(error).__name__)
        raise
    finally:
        started.end()
        contexts.detach(token)


def _exportable(text: str) -> str:
    """Shorten a text and replace lone surrogates.

    An exporter that cannot encode one span loses others as well.
    """
    return text[:MAX_VALUE_CHARS].encode(errors="replace").decode()
