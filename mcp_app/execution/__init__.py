"""Inside the Celery worker: the claim, the tool's body, its context, and the ladder that stops it.

Refuses to write rows by itself (`lifecycle` does) and to know how a client is connected.
"""
