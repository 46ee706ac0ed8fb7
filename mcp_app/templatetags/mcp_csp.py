"""The nonce of a content security policy, where Django's admin has one: since Django 6.1, by a tag of its own."""

import django
from django import forms, template
from django.template.context import Context
from django.utils.html import format_html

register = template.Library()


@register.simple_tag(takes_context=True)
def nonce(context: Context) -> str:
    """The attribute of a script, or of a link to a style."""
    value = _value(context)
    return "" if value is None else format_html('nonce="{}"', value)


@register.simple_tag(takes_context=True)
def with_nonce(context: Context, media: forms.Media) -> str:
    """What a form or a widget brings, each with the attribute."""
    value = _value(context)
    return media.render() if value is None else media.render(attrs={"nonce": value})


def _value(context: Context) -> object:
    return context.get("csp_nonce") if django.VERSION >= (6, 1) else None
