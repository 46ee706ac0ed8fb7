"""The admin's lists accept only the lookups that their filters offer. The test generates all others."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from django.contrib import admin
from django.contrib.admin import ModelAdmin
from django.contrib.auth.models import User
from django.db.models import Field
from django.test import Client, RequestFactory
from django.urls import reverse

from mcp_app.models import (
    Cancellation,
    CancelledRequest,
    InFlightRequest,
    ListenStream,
    Request,
    Session,
    Tally,
    Token,
    Tool,
)
from mcpsite.models import Contact

OFFERED: Final[dict[Any, set[str]]] = {
    Request: {"status__exact", "status__isnull", "tool", "endpoint", "submitted_at__gte", "submitted_at__lt"},
    InFlightRequest: {"status", "tool", "endpoint", "submitted_at__gte", "submitted_at__lt"},
    CancelledRequest: {
        *("cancel_requested_at__gte", "cancel_requested_at__lt", "cancel_cause__exact", "cancel_cause__isnull"),
        *("stage__exact", "stage__isnull", "status__exact", "tool", "endpoint"),
    },
    Cancellation: {
        *("cause__exact", "cause__isnull", "outcome__exact", "outcome__isnull", "stage__exact", "stage__isnull"),
        *("within", "actor", "tool"),
    },
    Session: {"endpoint"},
    ListenStream: {"endpoint"},
    Tally: set(),
    Token: set(),
    Tool: {"enabled__exact", "enabled__isnull", "registered__exact", "registered__isnull"},
    Contact: set(),
}
"""The lookups of each list's filters. The days of some lists (`from`, `to`) are not lookups of a field."""
APPS: Final = ("mcp_app", "mcpsite")
ADMINS: Final = [each for model, each in admin.site._registry.items() if model._meta.app_label in APPS]
BY_LIST: Final = pytest.mark.parametrize("model_admin", ADMINS, ids=lambda each: each.model.__name__)
pytestmark = pytest.mark.django_db(databases="__all__")


def lookups(model: Any) -> Iterator[str]:
    """Yield every lookup of one field, and of one transform of it."""
    for field in model._meta.get_fields():
        yield field.name
        for name, made in field.get_lookups().items() if isinstance(field, Field) else ():
            yield f"{field.name}__{name}"
            if hasattr(made, "get_lookups"):  # a transform
                yield from (f"{field.name}__{name}__{derived}" for derived in made.get_lookups())
        yield f"{field.name}__any_key__regex"
    yield "pk__regex"


def test_every_list_is_known() -> None:
    assert {each.model for each in ADMINS} == set(OFFERED)


@BY_LIST
def test_no_lookup_is_accepted_that_no_filter_offers(model_admin: ModelAdmin, rf: RequestFactory) -> None:
    request = rf.get("/")
    request.user = User(is_superuser=True)
    model = model_admin.model
    found = set(lookups(model))
    assert len(found) > 20
    accepted = {lookup for lookup in found if model_admin.lookup_allowed(lookup, "1", request)}
    assert accepted <= OFFERED[model]
    assert {each for each in OFFERED[model] if model_admin.lookup_allowed(each, "1", request)} == OFFERED[model]


@pytest.mark.parametrize("model_admin", [each for each in ADMINS if each.model is not Tally], ids=str)
def test_a_list_answers_400_to_a_regular_expression(model_admin: ModelAdmin, admin_client: Client) -> None:
    name = f"admin:{model_admin.opts.app_label}_{model_admin.opts.model_name}_changelist"
    assert admin_client.get(reverse(name)).status_code == 200
    for field in model_admin.opts.concrete_fields:
        assert admin_client.get(reverse(name), {f"{field.name}__regex": "(a+)+$"}).status_code == 400
