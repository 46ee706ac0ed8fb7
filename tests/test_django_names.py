"""Undocumented behaviour of Django and psycopg on which `mcp_app` relies (`docs/project/upstream.md`)."""

import logging
from typing import Any

import pytest
from django import forms
from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.auth.models import Group
from django.contrib.messages.storage.base import BaseStorage
from django.db import models, transaction
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware
from django.utils.log import log_response


def test_a_forged_request_is_rejected_by_one_method() -> None:
    """`CsrfViewMiddleware` passes every request that it rejects to `_reject`, with the reason."""
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
    """`ModelForm._post_clean` fills and validates the instance after all fields have been cleaned."""
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
            """Do not query the database."""

    assert GroupForm({"name": "staff"}).is_valid()
    assert seen == [{"name": "staff"}, "staff"]


def test_a_queryset_and_a_manager_know_the_database_that_using_named() -> None:
    """`_db` is the alias, or `None` if the routers choose the database."""
    queryset: Any = Group.objects.all()
    assert queryset._db is None
    assert queryset.using("mcp")._db == "mcp"
    manager: Any = Group.objects
    assert manager._db is None
    assert manager.db_manager("mcp")._db == "mcp"
    assert isinstance(manager, models.Manager)


def test_a_function_that_is_no_transaction_says_so_itself() -> None:
    """`non_atomic_requests` stores the databases in `_non_atomic_requests`, and returns the function itself."""

    @transaction.non_atomic_requests(using="mcp")
    @transaction.non_atomic_requests
    def tool() -> None:
        """Do nothing."""

    assert vars(tool)["_non_atomic_requests"] == {"default", "mcp"}


def test_a_response_that_has_been_logged_is_not_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    """`log_response` ignores a response with `_has_been_logged`."""
    caplog.set_level(logging.ERROR, "django.request")
    response: Any = HttpResponse(status=503)
    response._has_been_logged = True
    log_response("Service Unavailable", response=response, request=HttpRequest())
    assert not caplog.records
    log_response("Service Unavailable", response=HttpResponse(status=503), request=HttpRequest())
    assert len(caplog.records) == 1


def test_a_message_of_a_modeladmin_is_kept_by_the_storage_of_its_request() -> None:
    """`message_user` adds to `request._messages`, whose storage implements `_get` and `_store`."""

    class Kept(BaseStorage):
        def _get(self, *args: Any, **kwargs: Any) -> tuple[list[Any], bool]:
            return [], True

        def _store(self, messages: Any, response: Any, *args: Any, **kwargs: Any) -> list[Any]:
            return []

    request: Any = HttpRequest()
    request._messages = Kept(request)
    ModelAdmin(Group, AdminSite()).message_user(request, "Two groups were joined.")
    assert [str(each) for each in request._messages] == ["Two groups were joined."]


def test_a_connection_of_psycopg_knows_its_pool() -> None:
    """`_pool` is set on a connection from a pool, and `None` while it is in the pool. `close` reads it as well."""
    psycopg = pytest.importorskip("psycopg")
    assert "_pool" in psycopg.Connection.close.__code__.co_consts
