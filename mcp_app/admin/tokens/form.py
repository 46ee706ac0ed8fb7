"""The form that makes a token: its user, purpose, scopes and lifetime.

A token has all rights of its user. So a superuser makes tokens for any active user, and other users with the
permission make them only for themselves.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django import forms
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.utils.translation import gettext_lazy as _

from mcp_app.auth.tokens import MAX_DAYS
from mcp_app.models import Token

_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
"""RFC 6749, 3.3."""


class TokenForm(forms.ModelForm):
    """A form in which `maker` is the logged-in user. `of` makes a class for each request."""

    maker: AbstractBaseUser
    username = forms.CharField(
        label=_("User"), required=False, help_text=_("The name of the user to whom the token belongs. Empty: your own.")
    )
    scopes = forms.CharField(
        label=_("Scopes"),
        required=False,
        help_text=_("Its scopes, separated by spaces. Empty: not limited by scopes."),
    )
    days = forms.IntegerField(
        label=_("Days"),
        required=False,
        min_value=1,
        max_value=MAX_DAYS,
        help_text=_("Its lifetime in days. Empty: it does not expire."),
    )

    class Meta:
        model = Token
        fields = ("name",)
        help_texts = {"name": _("Its purpose, such as the name of the client that will use it.")}

    @classmethod
    def of(cls, maker: AbstractBaseUser) -> type["TokenForm"]:
        return type(cls.__name__, (cls,), {"maker": maker})

    def clean_username(self) -> str:
        """Return the name of an active user for whom the maker may make a token, and set `user`."""
        name = self.cleaned_data["username"] or self.maker.get_username()
        is_own = name == self.maker.get_username()
        if not is_own and not getattr(self.maker, "is_superuser", False):
            raise forms.ValidationError(_("Only superusers can create tokens for other users."))
        model = get_user_model()
        self.user = self.maker if is_own else model._default_manager.filter(**{model.USERNAME_FIELD: name}).first()
        if self.user is None or not self.user.is_active:
            raise forms.ValidationError(_("This site has no such active user."))
        return str(name)

    def clean_scopes(self) -> list[str] | None:
        scopes = sorted(set(self.cleaned_data["scopes"].split()))
        if not all(map(_SCOPE.fullmatch, scopes)):
            raise forms.ValidationError(_("A scope must not contain quotes, backslashes or non-ASCII characters."))
        return scopes or None

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        days = cleaned.get("days")
        cleaned["expires_at"] = datetime.now(UTC) + timedelta(days=days) if days else None
        return cleaned
