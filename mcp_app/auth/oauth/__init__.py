"""The endpoint as an OAuth 2.1 resource server: its metadata, and the tokens that it accepts.

    resource       the endpoint's URI and its metadata
    jwts           signed tokens, and the issuer's keys
    introspection  tokens that are checked by asking their issuer
    toolkit        tokens that the site itself has issued
    claims         turns a token's claims into a principal; limits of what is accepted
    fetching       HTTP requests to the authorization server

There are three authenticators for `MCP["AUTHENTICATOR"]`: `jwts.bearer` verifies signed tokens with
their issuer's keys, `introspection.bearer` asks the issuer about each token, and `toolkit.bearer`
looks up tokens that the site itself has issued with django-oauth-toolkit. The server issues no
tokens here, and never forwards, stores or logs one. Source: 2026-07-28 basic/authorization, RFC
9728, RFC 6750.
"""
