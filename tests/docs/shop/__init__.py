"""An app with the tools of docs/how-to/asking.md, for a site that real processes serve."""
