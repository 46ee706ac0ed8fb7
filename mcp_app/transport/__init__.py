"""Channels: bytes in, frames out. Everything that speaks HTTP and everything that is asynchronous lives here.

    consumers                   one POST: its body, its disconnect, the task that serves it
    http                        the only writer of HTTP responses
    methods capabilities        which MCP methods are served, and the short ones; what is advertised
    reads author_code           resources, prompts, completions: what runs authors' code in this process
    author_threads rate         where that runs; how often
    call_stream listen_stream   the two that wait: a `tools/call`, a `subscriptions/listen`
    honoured                    which part of a `subscriptions/listen` is served
    tail                        one per server process: the reader of rows for all who wait in it
    hints upkeep                what wakes it; its liveness and supervision
    threads daemon_threads      where its database work runs; what no end of a process waits for
    gathered at_once            what many want done at one moment; what needs no waiting
    admission                   how much is let in, and nothing while draining
    server shutdown             all of that for one event loop; how it ends

Refuses to write request rows (`lifecycle` does) and to run tools (`execution` does).
"""
