"""A chaos run: random clients use a real site while its processes and engines are killed, frozen and disconnected.

    python -m tests.chaos --minutes 10 --stack redis --seed 7

    plan      the actions of the run, which depend on the seed alone
    clients/  clients that call, disconnect, cancel, ask, listen and send invalid data
    mcp_tools settings journal   the site's tools, which record their work in files that survive every fault
    site      the processes and the engines; `kept` restarts the processes
    faults    the faults that are made
    ledger    the responses that every client received
    rows      the content of the database
    verdict/  the checks after the run; `report` summarises the run

The verdict begins when no more faults are made and the site is quiet.
"""
