"""Public API for publishing models as tools. Import it in an app's `mcp_tools.py`::

    from mcp_app.model_tools import ModelTools, register

    @register(Book)
    class BookTools(ModelTools):
        fields = ["title", "author"]

`admin_tools` publishes models with the rights and forms of their ModelAdmins instead.

The implementation is in `derived`.
"""

from mcp_app.derived.admin.publishing import admin_tools
from mcp_app.derived.model_tools import ModelTools, User
from mcp_app.derived.registration import register

__all__ = ["ModelTools", "User", "admin_tools", "register"]
