"""Viewsets and serializers of Django REST framework as tools. Imported only where a site has installed it."""
