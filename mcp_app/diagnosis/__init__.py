"""What a running site looks like from inside: one module for each thing looked at, each telling what it found.

    findings      what is told: a name, a state, a sentence, and what to do
    examination   the looks in their order, each within a bound; what several of them need, asked once
    presences     what workers answer about themselves
    looks         all that there are

For people (`mcp doctor`) and for probes (`transport.readiness`). Reads and asks; refuses to repair, and to wait without
a bound.
"""
