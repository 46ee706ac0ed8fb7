"""A site that includes the metrics as docs/how-to/operations.md describes."""

from typing import Any

from django.urls import include, path

from tests.docs.pages import executed, snippet

urlpatterns: list[Any] = []
executed(
    snippet("how-to/operations.md#how-much-how-often-how-long-prometheus:2"),
    urlpatterns=urlpatterns,
    include=include,
    path=path,
)
