"""The tools, resources and prompts that a site offers.

Apps register functions with decorators. For tools, `catalogue` joins these declarations with the
rows in which administrators override them.

In reading order; each module imports only those below it:

    catalogue      the tools of this process joined with their rows and the caller's rights
    tool_rows      a row for each tool that was ever registered
    changes        change versions, bumped in the transaction that changes a list or a resource
    audiences      the callers that a change of a list affects
    completion     values that an argument may have
    reads          lists, resources and prompts for one caller
    arguments      a call's arguments, validated by the tool's schema
    results        a tool's return value as a CallToolResult
    registry       the `tool` decorator
    resources      the `resource` decorator
    prompts        the `prompt` decorator
    availability   per-caller availability of resources and prompts, and how their functions run
    uri_templates  matching a URI against a template
    declaration    the registries and the checks of all decorators
    input/         questions to the client
    schema/        JSON Schema: its checks, and schemas made from signatures
    content/       content blocks, and the checks of results
    paging         cursors of lists
    errors         exceptions of declarations, arguments and results

No module here runs a tool or knows a transport. Nothing that a schema or a URI names is fetched.
"""
