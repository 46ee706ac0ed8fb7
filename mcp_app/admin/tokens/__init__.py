"""Bearer tokens in the admin.

pages  make, show once, and revoke tokens
form   the form that makes one
"""
