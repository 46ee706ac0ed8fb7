"""django-mcpz in a Django site of one file, for gunicorn."""

from bench.peers.servers import django_site

django_site.configure(__name__)

import msgspec  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.urls import path  # noqa: E402
from django_mcpz.server import MCPServer, public  # noqa: E402

from bench.peers.servers import fillers  # noqa: E402

server = MCPServer(name="peer", version="1", auth=public)


class Text(msgspec.Struct):
    text: str


class Query(msgspec.Struct):
    query: str
    limit: int = 10
    exact: bool = False


@server.tool(description="Return the text.")
def echo(request, params: Text) -> str:
    return params.text


def find_entries(request, params: Query) -> str:
    return f"{params.query} {params.limit} {params.exact}"


for number in range(fillers.TOOLS - 1):
    server.tool(name=fillers.name(number), description=fillers.description(number))(find_entries)

urlpatterns = [path("mcp", server)]
application = get_wsgi_application()
