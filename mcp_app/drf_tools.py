"""Public API for routers, viewsets and serializers of Django REST framework (extra: `drf`).

Import it in an app's `mcp_tools.py`::

    from mcp_app.drf_tools import viewset_tools

    viewset_tools(BookViewSet)

The implementation is in `derived.drf`.
"""

from mcp_app.derived.drf.routers import router_tools
from mcp_app.derived.drf.serializers import serializer_tool
from mcp_app.derived.drf.viewsets import viewset_tools

__all__ = ["router_tools", "serializer_tool", "viewset_tools"]
