"""Public API for offering Django forms as tools. Import it in an app's `mcp_tools.py`::

    from mcp_app.form_tools import form_tool

    @form_tool(ContactForm)
    def contact(data):
        send_mail(data["subject"], data["text"], None, ["office@example.com"])

The implementation is in `derived`.
"""

from mcp_app.derived.forms import form_tool

__all__ = ["form_tool"]
