"""The caller over stdio: the operating system's user who started the server.

No credential is needed, because a user who can start a process here can do anything that it does. A
user of the site that tools act for must exist and be active.
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
"""The issuer of principals that are users of this machine. Their subject is `uid@host`."""


class UnknownUserError(Exception):
    """The site has no such active user. The message is for the operator."""


def local_principal(endpoint: str = DEFAULT_ENDPOINT) -> Principal:
    """Return the principal of the operating system's user of this process, at an endpoint."""
    host = socket.gethostname()
    return Principal(
        ISSUER,
        subject=f"{os.getuid()}@{host}"[:MAX_CHARS],
        client_id="",
        label=f"{_name()}@{host}"[:MAX_CHARS],
        endpoint=endpoint,
    )


def acting_for(username: str, endpoint: str = DEFAULT_ENDPOINT) -> Principal:
    """Return the local principal, with a user of the site as `ctx.user` for tools.

    Raises `UnknownUserError`, `django.db.Error`.
    """
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
    except (KeyError, OSError):  # the user has no name, as in some containers
        return f"uid {os.getuid()}"
