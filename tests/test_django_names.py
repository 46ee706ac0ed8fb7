"""What Django and psycopg do beyond their documentation, as far as `mcp_app` relies on it (`docs/upstream.md`)."""

import logging
from typing import Any

import pytest
from django import forms
from django.contrib.auth.models import Group
from django.db import models, transaction
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware
from django.utils.log import log_response


def test_a_forged_request_is_rejected_by_one_method() -> None:
    """CsrfViewMiddleware answers every request that it refuses by `_reject`, with the reason."""
    reasons: list[str] = []

    class Check(CsrfViewMiddleware):
        def _reject(self, request: HttpRequest, reason: str) -> HttpResponse:
            reasons.append(reason)
            return HttpResponse(status=403)

    request = HttpRequest()
    request.method = "POST"
    request.META["SERVER_NAME"] = "testserver"
    refused = Check(lambda _: HttpResponse()).process_view(request, lambda _: HttpResponse(), (), {})
    assert refused is not None
    assert refused.status_code == 403
    assert reasons == ["CSRF cookie not set."]


def test_the_models_own_validation_is_one_step_of_a_forms() -> None:
    """ModelForm._post_clean validates the instance, when each field is cleaned."""
    seen: list[Any] = []

    class GroupForm(forms.ModelForm):  # type: ignore[type-arg]
        class Meta:
            model = Group
            fields = ("name",)

        def _post_clean(self) -> None:
            seen.append(dict(self.cleaned_data))
            super()._post_clean()  # type: ignore[misc]
            seen.append(self.instance.name)

        def validate_unique(self) -> None:
            """Asks no database."""

    assert GroupForm({"name": "staff"}).is_valid()
    assert seen == [{"name": "staff"}, "staff"]


def test_a_queryset_and_a_manager_know_the_database_that_using_named() -> None:
    """`_db`, which is None where the routers are to say."""
    queryset: Any = Group.objects.all()
    assert queryset._db is None
    assert queryset.using("mcp")._db == "mcp"
    manager: Any = Group.objects
    assert manager._db is None
    assert manager.db_manager("mcp")._db == "mcp"
    assert isinstance(manager, models.Manager)


def test_a_function_that_is_no_transaction_says_so_itself() -> None:
    """`non_atomic_requests` notes the databases in _non_atomic_requests, and gives the function back."""

    @transaction.non_atomic_requests(using="mcp")
    @transaction.non_atomic_requests
    def tool() -> None:
        """Do nothing."""

    assert vars(tool)["_non_atomic_requests"] == {"default", "mcp"}


def test_a_response_that_has_been_logged_is_not_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    """`_has_been_logged`"""
    caplog.set_level(logging.ERROR, "django.request")
    response: Any = HttpResponse(status=503)
    response._has_been_logged = True
    log_response("Service Unavailable", response=response, request=HttpRequest())
    assert not caplog.records
    log_response("Service Unavailable", response=HttpResponse(status=503), request=HttpRequest())
    assert len(caplog.records) == 1


def test_a_connection_of_psycopg_knows_its_pool() -> None:
    """`_pool` is set on a connection of a pool, and None while it is in there. `close` asks for it, too."""
    psycopg = pytest.importorskip("psycopg")
    assert "_pool" in psycopg.Connection.close.__code__.co_consts
