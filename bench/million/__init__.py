"""`python -m bench.million`: what calls cost a site that has ended a million of them, beside one that has ended few.

Owns two sites on engines of their own, filled by `bench.admin.filling`, and how what they say is compared: the plan of
each statement, and medians of rounds taken in turn. Refuses to judge by one round.
"""
