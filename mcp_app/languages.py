"""Activates a language and a time zone for one piece of work, as for a view.

The language is the one that the client prefers, if the site supports it, or the site's default. The
time zone is the site's default. Both are restored afterwards, so that work in the same thread does
not affect later work.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from django.conf import settings
from django.utils import timezone, translation
from django.utils.translation.trans_real import parse_accept_lang_header

R = TypeVar("R")

HEADER: Final = "Accept-Language"
"""RFC 9110, section 12.5.4."""


def preferred(accept_language: str) -> str:
    """Return the first language of the header that the site supports, or "" for its default."""
    if not settings.USE_I18N:
        return ""
    for language, _ in parse_accept_lang_header(accept_language):
        if language == "*":
            return ""
        try:
            found: str = translation.get_supported_language_variant(language)
        except LookupError:
            continue
        return found
    return ""


def are_several() -> bool:
    """Whether the site has several languages, so that a client's preference matters."""
    return settings.USE_I18N and len(settings.LANGUAGES) > 1


@contextmanager
def active(language: str) -> Iterator[None]:
    """Activate a language ("" for the site's default) and the default time zone in the block."""
    with translation.override(language or settings.LANGUAGE_CODE), timezone.override(None):
        yield


def run_in(language: str, function: Callable[..., R], *args: Any) -> R:
    """Call `function` with this language active."""
    with active(language):
        return function(*args)
