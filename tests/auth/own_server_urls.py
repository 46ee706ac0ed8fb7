"""The pages of a site that is its own authorization server, as docs/access.md has them."""

from django.contrib import admin
from django.urls import include, path
from oauth2_provider.urls import metadata_urlpatterns

urlpatterns = [
    path("admin/", admin.site.urls),
    path("oauth/", include("oauth2_provider.urls")),
    path("", include((metadata_urlpatterns, "oauth2_provider"), namespace="oauth2_metadata")),
]
