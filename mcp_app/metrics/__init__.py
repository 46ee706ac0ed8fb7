"""Metrics for Prometheus. Add `path("metrics", include("mcp_app.metrics.urls"))` to the URLs.

    collector   the metrics; a site with its own registry can register `MCPCollector` there
    urls        the URL
    views       the page that Prometheus scrapes, and the permission for it

Requires prometheus-client (the extra `metrics`). All metrics are computed from rows, so every
server process returns the same numbers, for the whole site.
"""
