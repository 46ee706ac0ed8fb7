"""django-mcpz in a single-file Django site, for gunicorn."""

from bench.peers.servers import django_site

django_site.configure(__name__)

import msgspec
from django.core.wsgi import get_wsgi_application
from django.urls import path
from django_mcpz.server import MCPServer, public

from bench.peers.servers import fillers
from bench.peers.servers.steps import worked

server = MCPServer(name="peer", version="1", auth=public)


class Text(msgspec.Struct):
    text: str


class Work(msgspec.Struct):
    seconds: float
    path: str


class Query(msgspec.Struct):
    query: str
    limit: int = 10
    exact: bool = False


@server.tool(description="Return the text.")
def echo(request, params: Text) -> str:
    return params.text


@server.tool(description="Block, and write a line at each step.")
def work(request, params: Work) -> str:
    return worked(params.seconds, params.path)


def find_entries(request, params: Query) -> str:
    return f"{params.query} {params.limit} {params.exact}"


for number in range(fillers.TOOLS - 2):
    server.tool(name=fillers.name(number), description=fillers.description(number))(find_entries)

urlpatterns = [path("mcp", server)]
application = get_wsgi_application()
