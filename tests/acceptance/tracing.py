"""A site's spans as lines of JSON in a file, to which all its processes append."""

import json
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor


def export_to(path: str) -> None:
    """Set up tracing in this process and the processes that it forks."""
    provider = TracerProvider()
    exporter = ConsoleSpanExporter(out=open(path, "a"), formatter=_line)  # noqa: SIM115 - open until the process ends
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


def spans_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _line(span: ReadableSpan) -> str:
    return f"{span.to_json(indent=None)}\n"
