"""The acceptance site with a router of its own that sends every read to a replica. It needs PostgreSQL."""

from typing import Any

from tests.acceptance.settings import *  # noqa: F403
from tests.acceptance.settings import DATABASES

SITE = DATABASES["default"]
DATABASES = {**DATABASES, "replica": {**SITE, "NAME": f"{SITE['NAME']}_replica"}}
DATABASE_ROUTERS = ["tests.acceptance.replica_settings.ReplicaRouter"]
SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"  # a session in a table would be read too early


class ReplicaRouter:
    """Reads from the replica, writes to `default`, and permits relations between rows of Django's apps only."""

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return "replica"

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "default"

    def allow_relation(self, one: Any, other: Any, **hints: Any) -> bool:
        return {one._meta.app_label, other._meta.app_label} <= {"auth", "admin", "contenttypes"}

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        return db == "default"
