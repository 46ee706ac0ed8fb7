"""Public API for publishing models as tools. Import it in an app's `mcp_tools.py`::

    from mcp_app.model_tools import ModelTools, register

    @register(Book)
    class BookTools(ModelTools):
        fields = ["title", "author"]

The implementation is in `derived`.
"""

from mcp_app.derived.model_tools import ModelTools, User
from mcp_app.derived.registration import register

__all__ = ["ModelTools", "User", "register"]
