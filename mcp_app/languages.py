"""The language and the time zone of one piece of work: as a view of the site would have them.

The language is what its client asked for, as far as the site speaks it, or the site's. The time zone is the site's
default. Whatever code activates while it works ends with the work: the next one in the same thread has its own.
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
    """The first of the languages in a header's value that the site has; "" for the site's own."""
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
    """Whether a client's choice can matter."""
    return settings.USE_I18N and len(settings.LANGUAGES) > 1


@contextmanager
def active(language: str) -> Iterator[None]:
    """Work in a language ("" for the site's) and in the default time zone."""
    with translation.override(language or settings.LANGUAGE_CODE), timezone.override(None):
        yield


def run_in(language: str, function: Callable[..., R], *args: Any) -> R:
    """Call `function` in that language."""
    with active(language):
        return function(*args)
