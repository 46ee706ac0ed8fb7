"""`python -m bench.admin`: requests every page of the admin on a database with a million ended requests.

It fills a database of its own and deletes it at the end. No server is started: Django handles the requests in this
process, so the times contain no network, client or other load.
"""
