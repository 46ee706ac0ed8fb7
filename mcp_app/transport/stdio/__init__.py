"""stdio: one client on two streams of this process. Its calls are served like those over HTTP.

In reading order:

    connection  one client, from its first line to its end
    streams     the standard streams, reserved for the protocol
    lines       messages in and out, one a line
    requests    the open requests of the connection
    response    the messages of one request, or of a batch (2025-03-26)
    peer        the client, and a legacy client's session in memory
"""
