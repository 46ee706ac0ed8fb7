"""A chaos run: random clients on a real site whose processes and engines are killed, frozen and cut off meanwhile.

    python -m tests.chaos --minutes 10 --stack redis --seed 7

    plan      what will be done, decided by the seed alone
    clients/  who calls, leaves, cancels, asks, listens, lies
    mcp_tools settings journal   the site's tools, which note what they do in files, whatever becomes of them
    site      the processes and the engines, and who starts them again
    faults    what is done to them
    ledger    what every client was told
    rows      what the database says
    verdict/  what must hold afterwards; `report` prints it

Refuses to judge while anything is still meant to go wrong: the verdict is about what is left once it is quiet.
"""
