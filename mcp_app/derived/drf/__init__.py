"""Routers, viewsets and serializers of Django REST framework as tools. Imported only if DRF is installed.

routers            `router_tools`: the viewsets of a router as tools
viewsets           `viewset_tools`: the actions of a viewset as tools
serializers        `serializer_tool`: a serializer as a tool
serializer_fields  a serializer's fields as JSON Schema
dispatch           the call of an action through DRF
"""
