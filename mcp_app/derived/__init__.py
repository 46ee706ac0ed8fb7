"""Tools and resources that are made of what Django knows: models, forms, viewsets of Django REST framework.

Written with what any author has (`mcp_app.tools`, `mcp_app.resources`): what is made here are ordinary tools, to the
catalogue, the worker and the admin. Refuses to publish a field that was not named.
"""
