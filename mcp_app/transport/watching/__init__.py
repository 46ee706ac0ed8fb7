"""Notices when rows change that clients of this server process wait for.

In reading order:

    row_watcher      queries the rows of all requests that clients wait for
    wakeup_listener  receives wake-ups, from datagrams and from the Channels layer
    change_table     the subscribers to changes of lists, resources and tasks
    scheduler        one task and one timer for all listen streams
    open_streams     stores the listen streams as rows, and closes those that an administrator closes
"""
