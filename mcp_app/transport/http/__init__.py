"""HTTP responses, and the paths beside the endpoint.

In reading order:

    responses          writes HTTP responses
    resource_metadata  the document that names the issuers of an endpoint's tokens
    health             the probes' endpoints
    readiness          whether this process should receive requests
"""
