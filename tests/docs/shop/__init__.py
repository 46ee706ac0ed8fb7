"""An app with the tools of docs/asking.md, for a site that real processes serve."""
