"""The fixture site: measuring tools and the conformance suite's fixtures, served by the real server.

    python manage.py mcp serve --settings tests.everything.settings

It must not be part of an example site, because its tools write files to any path that a caller names.
"""
