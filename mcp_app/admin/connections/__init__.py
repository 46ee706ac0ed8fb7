"""Connections of clients, which can be closed.

closing         base classes of both lists
sessions        sessions of legacy clients
listen_streams  listen streams
"""
