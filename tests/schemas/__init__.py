"""Whatever a client sends, in whatever order: what comes back is what its revision's JSON Schema allows.

`schemas` says what may come, `messages` and `everything` what is sent, `judge` whether an answer is one; `play` plays a
sequence on a wire of `wires`, and `tests.acceptance.test_schemas` does so against running servers.
"""
