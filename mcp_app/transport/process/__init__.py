"""Parts of a server process that all requests share: limits, threads, group commit, periodic work.

In reading order:

    threads         bounded pools of daemon threads for blocking work; group commit and shared reads
    admission       limits on open requests, calls, reads and streams, and on their rates
    tool_lists      caches the pages of `tools/list`
    author_threads  threads for the code of resources, prompts and completions
    cancellations   stores the cancellations that this process asks for
    heartbeats      heartbeat messages for clients that asked for debug messages
    upkeep          the process's heartbeat in the database, and supervision
"""
