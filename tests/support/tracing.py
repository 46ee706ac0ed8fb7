"""Records spans in memory, with OpenTelemetry's SDK in place of the global tracer provider."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
SPAN_ID = "00f067aa0ba902b7"
CLIENT = {"traceparent": f"00-{TRACE_ID}-{SPAN_ID}-01", "tracestate": "rojo=1", "baggage": "tenant=a"}
"""The context of a client's span, as it is sent in `params._meta`."""


@contextmanager
def caught() -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace, "get_tracer", provider.get_tracer)
        patch.setattr(trace, "get_tracer_provider", lambda: provider)
        yield exporter
    provider.shutdown()


def place(span: ReadableSpan) -> tuple[str, str, str]:
    """Return the ids of the span's trace, its parent and itself in W3C notation. A root span's parent is empty."""
    parent = f"{span.parent.span_id:016x}" if span.parent else ""
    return f"{span.context.trace_id:032x}", parent, f"{span.context.span_id:016x}"
