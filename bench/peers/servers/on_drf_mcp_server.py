"""djangorestframework-mcp-server in a single-file Django site, for gunicorn."""

from bench.peers.servers import django_site

django_site.configure(__name__, apps=["rest_framework"])

from django.core.wsgi import get_wsgi_application
from django.urls import path
from rest_framework import serializers
from rest_framework_mcp import MCPServer
from rest_framework_mcp.auth.backends.allow_any_backend import AllowAnyBackend
from rest_framework_services.types.service_spec import ServiceSpec

from bench.peers.servers import fillers
from bench.peers.servers.steps import worked

server = MCPServer(name="peer", auth_backend=AllowAnyBackend())


class Text(serializers.Serializer):
    text = serializers.CharField()


class Work(serializers.Serializer):
    seconds = serializers.FloatField()
    path = serializers.CharField()


class Query(serializers.Serializer):
    query = serializers.CharField()
    limit = serializers.IntegerField(default=10)
    exact = serializers.BooleanField(default=False)


def echo(*, data) -> str:
    return data["text"]


def work(*, data) -> str:
    return worked(data["seconds"], data["path"])


def find_entries(*, data) -> str:
    return str(data)


def register(name, description, service, arguments) -> None:
    # Not atomic, because the tools use no database.
    spec = ServiceSpec(service=service, input_serializer=arguments, atomic=False)
    server.register_service_tool(name=name, description=description, spec=spec)


register("echo", "Return the text.", echo, Text)
register("work", "Block, and write a line at each step.", work, Work)
for number in range(fillers.TOOLS - 2):
    register(fillers.name(number), fillers.description(number), find_entries, Query)

urlpatterns = [path("mcp/", server.urls)]
application = get_wsgi_application()
