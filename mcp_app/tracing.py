"""Spans, where OpenTelemetry is installed; where it is not, one import that fails and nothing else.

The only module that speaks of OpenTelemetry. Traces come and go as the W3C fields of `params._meta` and of the row,
never in Celery's headers. Refuses to set up a provider or an exporter: they are the site's.
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
    # Not the propagators that the site configured: the specification reserves these fields, and the row keeps no other.
    PROPAGATORS: Final = (TraceContextTextMapPropagator(), W3CBaggagePropagator())

ERROR_TYPE: Final = "error.type"
STATUS_CODE: Final = "rpc.response.status_code"
CANCELLED: Final = "cancelled"
"""The `error.type` of what was stopped before its end."""
TOOL_ERROR: Final = "tool_error"
"""The `error.type` of a result with `isError`."""
MAX_VALUE_CHARS: Final = 256


class Span:
    """One span under way; or none, which takes everything and does nothing."""

    def __init__(self, span: "OpenTelemetrySpan | None" = None, context: "Context | None" = None) -> None:
        self._span = span
        self._context = context
        self._failed = False

    def fail(self, error_type: str, description: str = "", *, code: int | None = None) -> None:
        """Mark it as failed, by a JSON-RPC error where there is a `code`. The first failure is the one that counts."""
        if self._span is None or self._failed:
            return
        self._failed = True
        if code is not None:
            self._span.set_attribute(STATUS_CODE, str(code))
        self._span.set_attribute(ERROR_TYPE, error_type)
        self._span.set_status(trace.StatusCode.ERROR, _exportable(description) or None)

    def carrier(self, received: Mapping[str, str]) -> dict[str, str]:
        """The W3C fields for whoever continues the trace from here: where there is no span, those `received`."""
        if self._context is None:
            return dict(received)
        fields: dict[str, str] = {}
        for propagator in PROPAGATORS:
            propagator.inject(fields, context=self._context)
        return fields


def is_told(received: Mapping[str, str]) -> bool:
    """Whether anybody learns of a span: a provider that the site has set up, or who goes on with a peer's trace."""
    return INSTALLED and (bool(received) or not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider))


@contextmanager
def span(
    name: str, attributes: Mapping[str, str], received: Mapping[str, str], *, of_peer: bool = False
) -> Iterator[Span]:
    """The span of the block, current in it, below the one that the W3C fields `received` name.

    `of_peer`: a peer asked for the work (kind SERVER), else it is a part of ours. A span that is current already, such
    as that of the HTTP request, is linked. What leaves the block as an exception marks the span as failed.
    """
    if not is_told(received):
        yield Span()
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
    """Of bounded length and without lone surrogates, over which an exporter would lose other spans as well."""
    return text[:MAX_VALUE_CHARS].encode(errors="replace").decode()
