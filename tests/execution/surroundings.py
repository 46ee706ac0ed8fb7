"""Middleware around tools. It receives the call and its result, and may answer in place of the tool."""

from django.contrib.auth.models import Group
from django.core.exceptions import MiddlewareNotUsed

from mcp_app.tools import ToolError


class Outer:
    """Middleware that is written as a class and reports the result of the inner one."""

    def __init__(self, get_result):
        self.get_result = get_result

    def __call__(self, ctx):
        result = self.get_result(ctx)
        return f"{ctx.request.tool}: {result}" if isinstance(result, str) else result


def not_used(get_result):
    raise MiddlewareNotUsed


def inner(get_result):
    def middleware(ctx):
        try:
            return get_result(ctx)
        except ToolError as error:
            if not str(error) == "refused":
                raise
            return f"{error}, {Group.objects.filter(name__startswith=str(ctx.request.id)).count()} left"

    return middleware
