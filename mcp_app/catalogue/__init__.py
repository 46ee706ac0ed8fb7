"""What can be called: the functions that apps register, joined with what administrators say about them.

    errors  context_marker              what goes wrong; how a tool asks for its context
    dialects  json_schema               JSON Schema: how a schema is checked against, what a schema may be
    signature                           a function's parameters and return value as JSON Schema
    registry                            the `tool` decorator and the tools of this process
    schema  results                     arguments in, by the tool's schema; results out
    rows  paging  catalogue             the registry joined with the rows; pages of it

Refuses to run a tool, to know a transport, and to fetch anything that a schema names.
"""
