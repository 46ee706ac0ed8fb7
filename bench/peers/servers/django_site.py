"""The minimal settings of a peer's Django site, with a database in memory."""

from collections.abc import Sequence


def configure(urls: str, apps: Sequence[str] = ()) -> None:
    """Configure Django with the URLs of the module `urls`, and load the apps."""
    import django
    from django.conf import settings

    settings.configure(
        SECRET_KEY="measured, not served",
        ALLOWED_HOSTS=["127.0.0.1"],
        ROOT_URLCONF=urls,
        INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", *apps],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        MIDDLEWARE=["django.middleware.security.SecurityMiddleware", "django.middleware.common.CommonMiddleware"],
        LOGGING_CONFIG=None,
        USE_TZ=True,
        REST_FRAMEWORK_MCP={"REQUIRE_TOOL_PERMISSIONS": False},
    )
    django.setup()
