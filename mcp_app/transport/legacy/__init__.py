"""The legacy era (2025-03-26 to 2025-11-25), whose clients begin with `initialize`.

In reading order:

    endpoint       HTTP requests of this era: their session, then their messages
    methods        the methods of these clients, and handlers that only they need
    exchange       one request, and the interfaces of its client and session
    http_peer      a client over HTTP, whose session is a row
    batches        several requests in one POST (2025-03-26)
    calls          `tools/call` in a session
    questions      asks a client for input, and stores its answers
    asking_reads   resources and prompts that ask their client for input
    get_stream     a session's GET stream
    notices        notifications outside of any request: lists and resources that changed

Sessions, requests and questions are rows, so any server process can serve the next request of a
session. This package uses the modern code as it is; the modern code never imports this package.
"""
