"""`python -m bench.admin`: every page of the admin, asked for on a database with a million ended requests.

Fills a database of its own and throws it away. Refuses to start a server: Django answers in this process, so what is
measured is what a page costs, without network, client and neighbours.
"""
