"""The differences between Celery's pools.

In reading order:

    prefork          processes: one that outlives its call's hard grace is killed
    threads          many calls in one process, where no call can be killed
    async_pool       threads, and an event loop in which `async` tools wait together
    shared_loop      that event loop
    coroutine_calls  one call in it
    steps            the steps of its coroutine, each of which can be interrupted
    closing          the end of a process whose threads did not end
"""
