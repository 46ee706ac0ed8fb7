"""Offer a Django site's functions as tools to AI clients over the Model Context Protocol.

Packages and modules from top to bottom. Each imports only those below it:

    testing/                             helpers for tests of a site's tools
    apps, management/, templatetags/     what Django loads: start-up, commands, template tags
    checks/                              system checks of a site's settings
    model_tools, form_tools, drf_tools   public API for models, admin sites, forms and viewsets
    derived/                             tools made from models, forms and viewsets
    tools, resources, prompts, visits    public API for authors
    routing, health/, metrics/           what a site's ASGI application and URLs import
    transport/                           HTTP and stdio: requests of clients
    execution/                           Celery workers: runs of tools
    admin/                               Django's admin
    presentation/                        requests as text, for pages and terminals
    diagnosis/                           checks of a running site, for `mcp doctor` and probes
    catalogue/                           the tools, resources and prompts on offer
    lifecycle/                           the life of one request
    auth/                                authentication and rights of the caller
    site_defaults                        a database, a broker and a Celery app for a site that has chosen none
    models/, migrations/, databases      the rows, and which database holds them
    celery_adapter/                      undocumented names of Celery, billiard and kombu
    conf, endpoint_settings              settings
    states                               the states of a request
    protocol/                            MCP as pure values
    embedded/                            the broker and the web server that pip installs
    tracing, languages, daemon_pool, descriptors, safe_text   small modules without a package

`docs/explanation/architecture.md` shows how a call runs through them, and how it is stopped.
"""

__version__ = "0.1.0"
