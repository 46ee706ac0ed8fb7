"""What a probe asks of a server process. Open to anybody, never kept, and in no transaction: GET and HEAD alone."""

from collections.abc import Callable, Coroutine
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from mcp_app.transport import readiness

View = Callable[[HttpRequest], Coroutine[Any, Any, HttpResponse]]


def _for_probes(view: View) -> View:
    for alias in connections:  # ATOMIC_REQUESTS would have the database asked first, and refuses async views
        view = transaction.non_atomic_requests(using=alias)(view)
    safe: View = login_not_required(csrf_exempt(never_cache(require_safe(view))))
    return safe


@_for_probes
async def live(request: HttpRequest) -> HttpResponse:
    """200: this process answers. Nothing else is asked."""
    return _response(readiness.LIVE)


@_for_probes
async def ready(request: HttpRequest) -> HttpResponse:
    """200, or 503 where a request would be served badly, with the states of what it needs."""
    return _response(await readiness.ready())


def _response(answer: readiness.Answer) -> HttpResponse:
    status, told = answer
    response = JsonResponse(told, status=status)
    # Else Django logs each 503 as an error of the site, and mails ADMINS every time that somebody probes.
    response._has_been_logged = True  # type: ignore[attr-defined]  # Django's own mark, which its stubs leave out
    return response
