from django.contrib import admin

from accounts.models import Member

admin.site.register(Member)
