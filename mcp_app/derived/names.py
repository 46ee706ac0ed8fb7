"""Words for the rows of a model, and names of tools that are made from words."""

import re

from django.db import models
from django.utils import translation
from django.utils.text import camel_case_to_spaces


def words_of(model: type[models.Model]) -> tuple[str, str]:
    """Return the singular and plural of a model's rows, untranslated."""
    one = camel_case_to_spaces(model._meta.object_name or "")
    with translation.override(None):
        many = str(model._meta.verbose_name_plural).lower()
    return one, many if re.fullmatch(r"[a-z0-9 _-]+", many) else f"{one}s"


def joined(words: str) -> str:
    """Return words as a name, such as `list_old_books`."""
    return re.sub(r"[ -]+", "_", words)
