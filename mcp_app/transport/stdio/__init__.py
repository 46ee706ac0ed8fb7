"""stdio: one client, on two streams of this process. Bytes in, lines out; the calls are served as on HTTP.

    streams         this process's standard streams, claimed for the protocol before anything prints
    lines           messages in, bounded, as fast as they are served
    writer          messages out, bounded, through a thread of its own
    response        the messages of one request; batch: of several that came on one line
    exchange        a request of either era, and the client that its session belongs to
    session         what a legacy client's session keeps and is told, in memory
    requests        the open requests, their cancellation
    connection      one client: what each line is, and whose

Refuses to know why the process was started, and what else it runs: `management.stdio` does.
"""
