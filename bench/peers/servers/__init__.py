"""The servers that are compared with this project. Each runs in its peer's environment and imports only that peer.

Each lists `fillers.TOOLS` tools: `echo`, the ones among `progress`, `wait` and `trigger_change` that the peer supports,
and fillers.
"""
