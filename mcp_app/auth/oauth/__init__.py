"""The endpoint as an OAuth 2.1 resource server: what it says of itself, and whose tokens it takes.

Three authenticators for `MCP["AUTHENTICATOR"]`: `jwts.bearer` verifies signed tokens by their issuer's keys,
`introspection.bearer` asks the issuer about each, `toolkit.bearer` finds those that the site itself has issued with
django-oauth-toolkit. Refuses to issue tokens, to pass one on, and to keep or print one.
Source: 2026-07-28 basic/authorization, RFC 9728, RFC 6750.
"""
