"""Health checks for probes. Add `path("health/", include("mcp_app.health.urls"))` to the URLs.

    urls   the URLs
    views  the responses

`live/` responds while the process runs. `ready/` responds with 200 if the process can serve
requests. If a probe cannot send a host name that is in ALLOWED_HOSTS, `mcp_application(…,
health="/health")` serves the same responses before Django handles the request.
"""
