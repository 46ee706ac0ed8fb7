"""For any sequence of messages from a client, each response fits the JSON Schema of its revision.

`schemas` has the schemas, `messages` and `everything` make the messages, and `judge` checks the
responses. `play` plays a sequence on a wire of `wires`. `tests.acceptance.test_schemas` plays
sequences against running servers.
"""
