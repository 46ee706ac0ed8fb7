"""The legacy era (2025-03-26 to 2025-11-25), whose clients begin with `initialize`.

    exchange methods session          a request that is served as its session's revision has it, whatever carries it
    subscriptions notices             what a session watches and is told
    questions asking_reads            what its client is asked: by calls, by prompts and resources
    endpoint http_exchange calls      over HTTP: sessions in rows, resumable calls
    get_stream batches

Owns what those revisions have and the modern one has not. Everything else is served by the modern handlers. Over stdio
`transport.stdio` has its parts.
"""
