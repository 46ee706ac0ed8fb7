"""The functions that a site names in its settings: each is there, and plain."""

from inspect import iscoroutinefunction
from typing import Any

from django.core.checks import CheckMessage, Error
from django.utils.module_loading import import_string


def check(setting: str, path: str, example: str, *, unusable: str, not_plain: str) -> list[CheckMessage]:
    """What is wrong with the function that `setting`, as it is written, names. `unusable` and `not_plain` are the
    checks' ids."""
    named = f"{setting}, {path},"
    try:
        function = import_string(path)
    except Exception as error:
        message = f"{named} cannot be imported: {type(error).__name__}: {error}"
        return [Error(message, hint=f"Name a plain function by its dotted path:{example}", id=unusable)]
    if not callable(function):
        message = f"{named} is no function."
        return [Error(message, hint=f"Name a plain function by its dotted path:{example}", id=unusable)]
    if is_async(function):
        message = f"{named} is async; it is called in a thread, where it may wait as it likes."
        return [Error(message, hint=f"Write it as a plain function:{example}", id=not_plain)]
    return []


def is_async(function: Any) -> bool:
    """Whether calling it makes a coroutine."""
    call = getattr(function, "__call__", None)  # noqa: B004 - the method is what is asked about, not whether there is one
    return iscoroutinefunction(function) or iscoroutinefunction(call)
