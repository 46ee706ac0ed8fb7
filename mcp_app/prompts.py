"""What a site's `mcp_tools.py` needs for prompts: `from mcp_app.prompts import assistant, prompt, user, Visit`.

The door for prompt authors. It owns nothing: the parts live in `catalogue`.
"""

from mcp_app.catalogue.asking import InputRequired
from mcp_app.catalogue.blocks import Audio, Image
from mcp_app.catalogue.changes import notify_prompts_list_changed
from mcp_app.catalogue.contents import assistant, user
from mcp_app.catalogue.errors import CannotAsk, PromptError
from mcp_app.catalogue.prompts import prompt
from mcp_app.catalogue.questions import Answer, Form, Link, Roots, Sampling
from mcp_app.catalogue.visit import Visit

__all__ = [
    "Answer",
    "Audio",
    "CannotAsk",
    "Form",
    "Image",
    "InputRequired",
    "Link",
    "PromptError",
    "Roots",
    "Sampling",
    "Visit",
    "assistant",
    "notify_prompts_list_changed",
    "prompt",
    "user",
]
