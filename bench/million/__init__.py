"""`python -m bench.million`: compares calls on a site with a million ended requests and on a site with few.

Each site has a database of its own, which `bench.admin.filling` fills. The plans of their statements are compared, and
the medians of rounds that are taken alternately on both sites.
"""
