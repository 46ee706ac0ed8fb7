"""The caller over stdio: this machine's user and, if requested, a user of the site for tools."""

import os

import pytest
from django.contrib.auth.models import User

from mcp_app.auth.local import ISSUER, UnknownUserError, acting_for, local_principal


def test_the_caller_is_the_user_that_the_process_belongs_to() -> None:
    principal = local_principal()
    assert principal.issuer == ISSUER
    assert principal.subject.split("@")[0] == str(os.getuid())
    assert (principal.client_id, principal.user_id) == ("", "")


def test_a_user_of_the_site_is_seen_by_tools_and_named_but_owns_nothing_else() -> None:
    user = User.objects.create_user("ada")
    principal = acting_for("ada")
    assert principal.owns(local_principal())
    assert principal.user_id == str(user.pk)
    assert principal.label.startswith("ada (")


@pytest.mark.parametrize("name", ["nobody", "gone"])
def test_a_user_that_is_not_there_or_not_active_is_refused(name: str) -> None:
    User.objects.create_user("gone", is_active=False)
    with pytest.raises(UnknownUserError, match="--user"):
        acting_for(name)
