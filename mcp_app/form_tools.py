"""What a site's `mcp_tools.py` needs to offer forms: `from mcp_app.form_tools import form_tool`.

The door for whoever offers forms. It owns nothing: the parts live in `derived`.
"""

from mcp_app.derived.forms import form_tool

__all__ = ["form_tool"]
