"""The pages of a site that is its own authorization server: the admin, and those of docs/how-to/access.md."""

from django.contrib import admin
from django.urls import include, path

from tests.docs.pages import snippet

urlpatterns = [path("admin/", admin.site.urls)]
exec(
    snippet("how-to/access.md#the-site-as-its-own-authorization-server:2").text,
    {"urlpatterns": urlpatterns, "include": include, "path": path},
)
