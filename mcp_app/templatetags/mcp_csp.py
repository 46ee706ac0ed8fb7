"""Add the nonce of a Content Security Policy to scripts and styles, as Django's admin does since Django 6.1."""

import django
from django import forms, template
from django.template.context import Context
from django.utils.html import format_html

register = template.Library()


@register.simple_tag(takes_context=True)
def nonce(context: Context) -> str:
    """Return the nonce attribute of a script, or of a link to a style."""
    value = _value(context)
    return "" if value is None else format_html('nonce="{}"', value)


@register.simple_tag(takes_context=True)
def with_nonce(context: Context, media: forms.Media) -> str:
    """Return the media of a form or a widget, each element with the nonce attribute."""
    value = _value(context)
    return media.render() if value is None else media.render(attrs={"nonce": value})


def _value(context: Context) -> object:
    return context.get("csp_nonce") if django.VERSION >= (6, 1) else None
