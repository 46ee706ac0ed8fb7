"""The pages of a site that is its own authorization server: the admin's, and those of docs/access.md, word for word."""

from django.contrib import admin
from django.urls import include, path

from tests.auth.own_server import documented

urlpatterns = [path("admin/", admin.site.urls)]
exec(documented("# urls.py"), {"urlpatterns": urlpatterns, "include": include, "path": path})
