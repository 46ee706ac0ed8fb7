"""For tests of a site's tools: the pytest plugin, the client that needs no worker, and one that has a whole site.

A door: it may open any room, and nothing imports it. Refuses to do anything a second way: what a test calls is checked,
stored, run, stopped and answered by the same code as in production (docs/testing.md says where that cannot be).
"""
