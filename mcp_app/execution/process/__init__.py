"""The processes that run tools, and the main process of their worker.

In reading order:

    child          the parts of a process that runs tools, which it keeps between calls
    slots          the resources of one call: its connections and its processes
    watcher        the thread that notices that a call must stop, and stops it
    worker_pipe    the pipe by which these processes report to the main process
    ladder         the thread of the main process that takes the last step against a tool
    timers         the timers of that thread
    main_database  how the main process uses the database although it forks
"""
