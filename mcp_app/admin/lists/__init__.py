"""Base classes and helpers of the admin's lists.

read_only      lists and pages that change nothing
bounded_pages  the first rows of a list of any length
live_lists     lists that update themselves
lookups        allows only the lookups that filters offer
typed_filters  filters with text inputs instead of choices
formatting     coloured words and progress bars
"""
