"""Offer a Django site's functions as tools to AI clients over the Model Context Protocol.

The rooms, imports going down only:

    testing                         the door of tests: for those of a site's tools
    apps routing management checks  the doors
    health                          the door of probes
    tools resources prompts         the doors of authors
    transport execution admin       the edges: bytes and frames, the Celery worker, people
    telling                         requests in words, for pages and terminals
    diagnosis                       what a running site looks like
    catalogue                       what can be called
    lifecycle auth                  the life of one request; who is asking
    models states conf databases    the hall
    protocol embedded               pure MCP; the engines that pip installs

`docs/architecture.md` has the map, the two flows and the reasons.
"""
