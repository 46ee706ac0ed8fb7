"""An app of which only some users may call the tool."""
