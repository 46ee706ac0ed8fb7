"""The door for probes, as Django's URLs: `path("health/", include("mcp_app.health.urls"))`.

`live/`: this process answers. `ready/`: it is to be sent requests. Where a probe cannot say a name that ALLOWED_HOSTS
has, `mcp_application(…, health="/health")` serves the same before Django.
"""
