"""What is offered: the functions that apps register, joined with what administrators say about them.

    errors  context_marker              what goes wrong; how a tool asks for its context
    dialects  json_schema               JSON Schema: how a schema is checked against, what a schema may be
    signature                           a function's parameters and return value as JSON Schema
    text_signature                      the parameters of a function that is called with text alone
    declaration                         what every decorator keeps and checks; where apps' declarations are found
    registry  resources  prompts        the `tool`, `resource` and `prompt` decorators
    uri_templates                       a URI back to a template's variables
    blocks  sendable                    content blocks; text and sizes that may be sent
    schema  results                     arguments in, by the tool's schema; results out
    visit  offers                       who asks; who may have what, and how its code is run
    reading  completing  contents       resources and prompts found, read, made; completions; what they return
    changes                             the word that something changed, in the transaction that changes it
    rows  paging  catalogue             the registry joined with the rows; pages of every list

Refuses to run a tool, to know a transport, and to fetch anything that a schema or a URI names.
"""
