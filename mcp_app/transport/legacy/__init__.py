"""The legacy era over HTTP (2025-03-26 to 2025-11-25): sessions, their calls and streams, batches.

Owns what those revisions have and the modern one has not. Everything else is served by the modern handlers, through an
exchange that says things as the session's revision does.
"""
