"""The process that answers the questions of `Inspector`. It runs in a stack's environment and reads its rows."""
