"""The example site's data: contacts that are imported from CSV."""

from django.core.validators import ProhibitNullCharactersValidator
from django.db import models

from mcp_app.safe_text import safe_text

_TEXT = (ProhibitNullCharactersValidator(),)


class Contact(models.Model):
    """A contact. Imports find it by its e-mail address, in lower case."""

    email = models.EmailField("e-mail address", unique=True)
    name = models.CharField(max_length=200, validators=_TEXT)
    company = models.CharField(max_length=200, blank=True, validators=_TEXT)
    phone = models.CharField(max_length=50, blank=True, validators=_TEXT)
    updated_at = models.DateTimeField("last change", auto_now=True)

    class Meta:
        ordering = ("email",)

    def __str__(self) -> str:
        return safe_text(f"{self.name} <{self.email}>")
