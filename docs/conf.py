"""How Sphinx builds these pages: `sphinx-build -W docs out/docs`."""

project = "django-mcp-app"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["deployment"]
html_theme = "furo"
html_title = "mcp_app"
html_show_sphinx = False
html_copy_source = False
myst_heading_anchors = 3
