"""Public API for prompts. Import it in an app's `mcp_tools.py`::

    from mcp_app.prompts import prompt

    @prompt
    def review(code: str):
        "Review a piece of code."
        return f"Please review this code: {code}"

The implementation is in `catalogue`.
"""

from mcp_app.catalogue.changes import notify_prompts_list_changed
from mcp_app.catalogue.content.blocks import Audio, Image
from mcp_app.catalogue.content.contents import assistant, user
from mcp_app.catalogue.errors import CannotAsk, PromptError
from mcp_app.catalogue.input.asking import InputRequired
from mcp_app.catalogue.input.questions import Answer, Form, Link, Roots, Sampling
from mcp_app.catalogue.input.read_context import ReadContext
from mcp_app.catalogue.prompts import prompt

__all__ = [
    "Answer",
    "Audio",
    "CannotAsk",
    "Form",
    "Image",
    "InputRequired",
    "Link",
    "PromptError",
    "ReadContext",
    "Roots",
    "Sampling",
    "assistant",
    "notify_prompts_list_changed",
    "prompt",
    "user",
]
