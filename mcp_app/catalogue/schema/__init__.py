"""JSON Schema: the checks of schemas, and schemas made from functions' signatures.

In reading order:

    signature       a function's parameters and return value as JSON Schema
    text_signature  the signature of a function that is called with text only
    inlining        definitions inlined in place of references
    json_schema     checks of schemas
    dialects        dialects, and validators with bounded cost
    violations      error messages for each keyword
    json_text       arguments sent as JSON text
    secret_names    field names that denote secrets
"""
