"""Who asks over stdio: the user of this machine who started the server.

There is no credential, because there is nothing to prove: whoever can start a process here can do what it does. Refuses
to name a user of the site that there is not, or that is not active.
"""

import getpass
import os
import socket
from dataclasses import replace
from typing import Final

from django.contrib.auth import get_user_model

from mcp_app.auth.authentication import MAX_CHARS
from mcp_app.auth.principal import Principal
from mcp_app.conf import DEFAULT_ENDPOINT

ISSUER: Final = "local"
"""The issuer of principals that are users of this machine; their subject is `uid@host`."""


class UnknownUserError(Exception):
    """There is no such active user of the site; the text says what to do."""


def local_principal(endpoint: str = DEFAULT_ENDPOINT) -> Principal:
    """The operating system's user that this process belongs to, at an endpoint."""
    host = socket.gethostname()
    return Principal(
        ISSUER,
        subject=f"{os.getuid()}@{host}"[:MAX_CHARS],
        client_id="",
        label=f"{_name()}@{host}"[:MAX_CHARS],
        endpoint=endpoint,
    )


def acting_for(username: str, endpoint: str = DEFAULT_ENDPOINT) -> Principal:
    """The same, with a user of the site as what tools see in `ctx.user`. Raises UnknownUserError, django.db.Error."""
    model = get_user_model()
    user = model._default_manager.filter(**{model.USERNAME_FIELD: username}).first()
    if user is None or not user.is_active:
        raise UnknownUserError(f"This site has no active user {username!r}; name one of its users with --user.")
    local = local_principal(endpoint)
    label = f"{user.get_username()} ({local.label})"[:MAX_CHARS]
    return replace(local, label=label, user_id=str(user.pk))


def _name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        return f"uid {os.getuid()}"
