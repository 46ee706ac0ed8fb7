"""The fixture site: measuring tools and the conformance suite's fixtures, served by the real server.

    python manage.py mcp serve --settings tests.everything.settings

Refuses to be part of an example site: its tools write files where their caller says.
"""
