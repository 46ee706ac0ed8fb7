"""The site's pages: the one at `/`, and the admin."""

from django.contrib import admin
from django.urls import path

from mcpsite.views import home

urlpatterns = [path("", home, name="home"), path("admin/", admin.site.urls)]
