"""Authentication of callers, and their access to endpoints.

principal       the caller: issuer, subject, client, endpoint; `Access`, the requirements for using a tool
authentication  turns a connection into its principal, or into a rejection
tokens          the site's own bearer tokens
logins          the site's own login, by session cookie
local           the caller over stdio
oauth/          tokens of an authorization server
confirmation    checks the caller of a call again after it has waited
challenges      400, 401 and 403 responses with `WWW-Authenticate`
"""
