"""stdio: one client, on two streams of this process. Bytes in, lines out; the calls are served as on HTTP.

    streams         this process's standard streams, claimed for the protocol before anything prints
    lines           messages in, bounded, as fast as they are served
    writer          messages out, bounded, through a thread of its own
    response        the messages of one request
    connection      one client's session: its open requests, its cancellations, its end

Refuses to know why the process was started, and what else it runs: `management.stdio` does.
"""
