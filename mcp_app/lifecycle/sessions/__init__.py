"""Rows about connections: the sessions of legacy clients, and open listen streams.

In reading order:

    sessions          sessions of legacy clients, which any server process can serve
    session_streams   the GET stream of a session: which connection has it, and what it has sent
    call_connections  the connection to which a session's call is sent, and calls without one
    listen_streams    open listen streams, so that the admin can list and close them
"""
