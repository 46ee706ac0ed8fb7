"""An app whose tools are those of docs/asking.md, for a site that real processes serve."""
