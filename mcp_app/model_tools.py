"""What a site's `mcp_tools.py` needs to publish models: `from mcp_app.model_tools import ModelTools, register`.

The door for whoever publishes models. It owns nothing: the parts live in `derived`.
"""

from mcp_app.derived.model_tools import ModelTools, User
from mcp_app.derived.registration import register

__all__ = ["ModelTools", "User", "register"]
