"""The site's pages, and the page for signing."""

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.urls import path

from mcp_app.visits import Visit, visit
from mcpsite import urls


@visit
def sign(request: HttpRequest, visit: Visit) -> HttpResponse:
    get_token(request)
    if request.method == "POST":
        visit.done({"by": request.user.get_username()})
    return HttpResponse(visit.message)


urlpatterns = [*urls.urlpatterns, path("sign/", sign, name="sign")]
