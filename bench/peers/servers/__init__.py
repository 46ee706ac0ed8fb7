"""The servers that are measured beside ours. Each runs in its peer's environment and imports nothing but that peer.

All offer the same list: `echo`, the tools that the peer can serve of `progress`, `sleep` and `trigger_change`, and
fillers up to `fillers.TOOLS`.
"""
