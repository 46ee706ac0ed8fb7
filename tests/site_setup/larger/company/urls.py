"""The company's pages."""

from django.contrib import admin
from django.urls import path
from orders import views

urlpatterns = [path("admin/", admin.site.urls), path("orders/", views.orders), path("orders/book/", views.book)]
