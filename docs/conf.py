"""How Sphinx builds these pages: `sphinx-build -W docs out/docs`. What it reads of the code needs no site."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcpsite.settings")

project = "django-mcp-app"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["deployment"]
html_theme = "furo"
html_title = "mcp_app"
html_show_sphinx = False
html_copy_source = False
myst_heading_anchors = 3
default_role = "code"  # what docstrings have between single backticks
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": True}
