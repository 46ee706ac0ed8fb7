"""Members, identified by their address, and their keys."""

import uuid

from django.contrib.auth.models import AbstractBaseUser, BaseUserManager, PermissionsMixin
from django.db import models


class Members(BaseUserManager):
    def create_superuser(self, email: str, password: str) -> "Member":
        member = self.model(email=email, is_staff=True, is_superuser=True)
        member.set_password(password)
        member.save()
        return member


class Member(AbstractBaseUser, PermissionsMixin):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    email = models.EmailField(unique=True)
    is_active = models.BooleanField(default=True)
    is_staff = models.BooleanField(default=False)

    objects = Members()
    USERNAME_FIELD = "email"

    def __str__(self) -> str:
        return self.email


class Key(models.Model):
    member = models.ForeignKey(Member, on_delete=models.CASCADE)
    digest = models.CharField(max_length=64, unique=True)

    def __str__(self) -> str:
        return f"a key of {self.member}"
