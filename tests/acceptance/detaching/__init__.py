"""An app with a tool that starts a daemon: a process that in a container becomes a child of the first process."""
