"""What the example site keeps: contacts, which people import from CSV."""

from django.core.validators import ProhibitNullCharactersValidator
from django.db import models

_TEXT = (ProhibitNullCharactersValidator(),)


class Contact(models.Model):
    """Somebody to write to. The e-mail address, in lower case, is the key that an import goes by."""

    email = models.EmailField("e-mail address", unique=True)
    name = models.CharField(max_length=200, validators=_TEXT)
    company = models.CharField(max_length=200, blank=True, validators=_TEXT)
    phone = models.CharField(max_length=50, blank=True, validators=_TEXT)
    updated_at = models.DateTimeField("last change", auto_now=True)

    class Meta:
        ordering = ("email",)

    def __str__(self) -> str:
        return f"{self.name} <{self.email}>"
