"""The views for probes: GET and HEAD, without authentication, caching and transactions."""

from collections.abc import Callable, Coroutine
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from mcp_app.transport.http import readiness

View = Callable[[HttpRequest], Coroutine[Any, Any, HttpResponse]]


def _for_probes(view: View) -> View:
    for alias in connections:  # ATOMIC_REQUESTS would query the database first, and forbids async views
        view = transaction.non_atomic_requests(using=alias)(view)
    safe: View = login_not_required(csrf_exempt(never_cache(require_safe(view))))
    return safe


@_for_probes
async def live(request: HttpRequest) -> HttpResponse:
    """Return 200 and `{"live": true}`: this process responds. Checks nothing else."""
    return _response(readiness.LIVE)


@_for_probes
async def ready(request: HttpRequest) -> HttpResponse:
    """Return 200, or 503 if this process cannot serve requests, and the state of each check.

    The body is JSON: `ready`, and `checks` with `ok` or `failed` by name. Outcomes are reused for
    one second, and each check takes at most `MCP["READY_TIMEOUT"]` seconds.
    """
    return _response(await readiness.ready())


def _response(answer: readiness.Answer) -> HttpResponse:
    status, body = answer
    response = JsonResponse(body, status=status)
    # Otherwise Django would log each 503 as an error, and send a mail to ADMINS for each probe.
    response._has_been_logged = True  # type: ignore[attr-defined]  # Django's own mark, which its stubs leave out
    return response
