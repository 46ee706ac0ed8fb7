"""A broker and a web server that need no other service, for a site on one host.

In reading order:

    server              Daphne, made safe for a public endpoint, and its requests
    server_connections  its connections: deadlines, limits, and clients that disappear
    extensions          what the server offers an application beyond ASGI
    broker              an asynchronous kombu transport whose queues are folders
    folder              the folders: messages are files
    bindings            which queues an exchange feeds
    readers             queues that are removed when their reader ends
    watch               when to check the folders, by inotify on Linux
"""
