"""The door for Prometheus, as a Django URL: `path("metrics", include("mcp_app.metrics.urls"))`.

    collector   the rows as metrics; a site with a registry of its own registers it there
    views       the page that is scraped, and who may

Takes prometheus-client: the extra `metrics`. Refuses to count anything itself: whichever process is scraped, the rows
say the same of the whole site.
"""
