"""How running code is stopped. These modules know nothing of rows and clients, except `orphans`.

In reading order:

    interrupt         the stop signal of a call, and the exception that is raised in its tool
    with_statements   where such an exception would leave a lock taken
    thread_interrupt  the same exception in one thread of many
    processes         finds and kills every process that a call started
    orphans           kills what workers left behind that died as a whole
    termination       the end of a pool process by a signal, which waits for the call that runs
"""
