"""The specification's own words, held against the endpoint: one module for each of its pages.

Each test proves one requirement and is named by it; how the parts work is tested in the rooms that own them.
"""
