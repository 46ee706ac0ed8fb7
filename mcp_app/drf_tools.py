"""What a site's `mcp_tools.py` needs to offer viewsets of Django REST framework (extra: drf).

The door for whoever has an API already: `from mcp_app.drf_tools import viewset_tools`. It owns nothing: the parts live
in `derived.drf`.
"""

from mcp_app.derived.drf.serializers import serializer_tool
from mcp_app.derived.drf.viewsets import viewset_tools

__all__ = ["serializer_tool", "viewset_tools"]
