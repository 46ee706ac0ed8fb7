"""Template tags and filters of the app.

mcp_consent  the page on which a user authorizes a client
mcp_csp      nonces of a Content Security Policy
mcp_live     lists that update themselves
"""
