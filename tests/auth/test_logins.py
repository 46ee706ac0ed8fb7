"""Scripts in the site's own pages call as the user who is logged in; other sites' pages cannot."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client as Browser

from mcp_app.auth.authentication import HeaderFields, HTTPConnection
from mcp_app.auth.logins import cookie
from mcp_app.models import Session as MCPSession
from tests.auth.asking import ask
from tests.support.asgi_client import message, post
from tests.support.legacy_asgi_client import Client
from tests.support.worker import in_thread

pytestmark = [
    pytest.mark.usefixtures("_logins"),
    pytest.mark.django_db(transaction=True, databases="__all__"),
    pytest.mark.fault("G3"),
]

PAGE, OTHER = "http://testserver", "https://evil.example"
Fields = dict[str, str]
Change = Callable[[Any], object]


@pytest.fixture
def _logins(configure: Any, settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    configure(
        ALLOW_ANONYMOUS=False,
        ALLOWED_HOSTS=["testserver"],
        ALLOWED_ORIGINS=[PAGE, OTHER],
        DRAIN_SECONDS=0.1,
        AUTHENTICATOR="mcp_app.auth.logins.cookie",
    )


@pytest.fixture
def ada() -> User:
    return User.objects.create_superuser("ada", password="secret")


@pytest.fixture
def browser(ada: User) -> Browser:
    """The browser of Ada, who has logged in with the site's form."""
    browser = Browser(enforce_csrf_checks=True)
    form = browser.get("/admin/login/")
    token = form.context["csrf_token"]
    sent = browser.post("/admin/login/", {"username": "ada", "password": "secret", "csrfmiddlewaretoken": str(token)})
    assert sent.status_code == 302
    return browser


def from_page(browser: Browser, **changes: str) -> Fields:
    """Return the fields of a request from the site's pages: cookies, token, origin.

    Empty ones are left out.
    """
    cookies = "; ".join(f"{name}={morsel.value}" for name, morsel in browser.cookies.items())
    token = browser.cookies["csrftoken"].value
    fields = {"Cookie": cookies, "X-CSRFToken": token, "Origin": PAGE}
    fields |= {name.replace("_", "-"): value for name, value in changes.items()}
    return {name: value for name, value in fields.items() if value}


def caller(*fields: tuple[str, str]) -> Any:
    """Return the caller that the authenticator sees in these header fields."""
    raw = [(name.lower().encode(), value.encode()) for name, value in (("Host", "testserver"), *fields)]
    return cookie(HTTPConnection(HeaderFields(raw), "192.0.2.1", "/mcp", scheme="http"))


def test_a_page_calls_as_its_user(browser: Browser, ada: User) -> None:
    assert ask(fields=from_page(browser)).status == 200
    masked = browser.get("/admin/password_change/").context["csrf_token"]
    assert ask(fields=from_page(browser, X_CSRFToken=str(masked))).status == 200
    assert caller(*from_page(browser).items()) == ada


def test_cookies_may_come_in_several_fields(browser: Browser, ada: User) -> None:
    """HTTP/2 sends them like this."""
    fields = from_page(browser)
    cookies = fields.pop("Cookie").split("; ")
    assert len(cookies) == 2
    assert caller(*(("Cookie", each) for each in cookies), *fields.items()) == ada


@pytest.mark.parametrize(
    "change",
    [
        lambda browser: browser.logout(),
        lambda browser: Session.objects.all().delete(),
        lambda browser: User.objects.update(is_active=False),
        lambda browser: User.objects.update(password="!another"),
        lambda browser: User.objects.all().delete(),
        lambda browser: Session.objects.update(expire_date="2020-01-01T00:00Z"),
    ],
    ids=["logged out", "session gone", "not active", "password changed", "user gone", "session expired"],
)
def test_who_is_not_logged_in_any_more_is_nobody(browser: Browser, change: Change) -> None:
    fields = from_page(browser)
    assert ask(fields=fields).status == 200
    change(browser)
    assert ask(fields=fields).status == 401


@pytest.mark.parametrize("cookies", ["", "sessionid=", "sessionid=short", f"sessionid={'x' * 32}", "other=1"])
def test_who_has_no_session_is_nobody(cookies: str) -> None:
    assert ask(fields={"Cookie": cookies} if cookies else {}).status == 401


def test_a_visitor_who_has_not_logged_in_is_the_anonymous_where_the_site_serves_them(configure: Any) -> None:
    browser = Browser()
    browser.session.save()
    visitor = {"Cookie": f"sessionid={browser.session.session_key}"}
    assert ask(fields=visitor).status == 401
    configure(ALLOW_ANONYMOUS=True)
    assert ask(fields=visitor).status == 200


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"X_CSRFToken": ""}, "CSRF token missing"),
        ({"X_CSRFToken": "a" * 32}, "incorrect"),
        ({"X_CSRFToken": "short"}, "has incorrect length"),
        ({"Origin": OTHER}, "Origin checking failed"),
        ({"Origin": "https://testserver"}, "Origin checking failed"),
    ],
    ids=str,
)
def test_what_another_site_may_have_a_browser_send_is_refused(
    browser: Browser, configure: Any, caplog: pytest.LogCaptureFixture, changes: Fields, why: str
) -> None:
    configure(ALLOWED_ORIGINS=[PAGE, OTHER, "https://testserver"])
    caplog.set_level(logging.INFO, "mcp_app.auth.logins")
    reply = ask(fields=from_page(browser, **changes))
    said = reply.body["error"]["message"]
    assert reply.status == 403
    assert why in said
    assert "X-Csrftoken" in said
    assert why in caplog.text
    assert OTHER not in f"{said}{caplog.text}"


def test_the_session_alone_is_not_enough(browser: Browser) -> None:
    fields = from_page(browser, Cookie=f"sessionid={browser.cookies['sessionid'].value}")
    assert "CSRF cookie not set" in ask(fields=fields).body["error"]["message"]


def test_pages_of_origins_that_django_trusts_may_call(browser: Browser, settings: Any) -> None:
    settings.CSRF_TRUSTED_ORIGINS = [OTHER]
    assert ask(fields=from_page(browser, Origin=OTHER)).status == 200


def test_over_https_who_names_no_origin_names_a_page(browser: Browser, settings: Any) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    secure = from_page(browser, Origin="", X_Forwarded_Proto="https")
    assert "Referer checking failed" in ask(fields=secure).body["error"]["message"]
    assert ask(fields={**secure, "Referer": f"{OTHER}/secret"}).status == 403
    assert ask(fields={**secure, "Referer": "https://testserver/page"}).status == 200


def test_the_token_against_forgery_may_be_the_sessions(browser: Browser, settings: Any) -> None:
    settings.CSRF_USE_SESSIONS = True
    token = str(browser.get("/admin/password_change/").context["csrf_token"])
    fields = from_page(browser, X_CSRFToken=token)
    assert ask(fields=fields).status == 200
    assert ask(fields={**fields, "X-CSRFToken": "a" * 32}).status == 403


def test_a_session_that_an_older_key_signed_is_good_and_left_as_it_is(browser: Browser, settings: Any) -> None:
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "another"
    kept = Session.objects.values().get()
    assert ask(fields=from_page(browser)).status == 200
    assert Session.objects.values().get() == kept


async def test_an_mcp_session_is_read_without_the_token_as_django_has_it_and_ended_with_it(browser: Browser) -> None:
    fields = from_page(browser)

    class Page(Client):
        def _fields(self, changes: Fields) -> Fields:
            return super()._fields({**fields, **changes})

    page = await Page.opened()
    token = fields.pop("X-CSRFToken")
    stream = await page.get()
    assert stream.status == 200
    assert (await page.delete()).status == 403
    assert await in_thread(MCPSession.objects.exists)
    fields["X-CSRFToken"] = token
    assert (await page.delete()).status == 200
    assert not await in_thread(MCPSession.objects.exists)
    await stream.body()


@pytest.mark.fault("E8")
async def test_E8_the_stream_of_who_logs_out_ends(browser: Browser, configure: Any) -> None:
    configure(CONFIRM_AFTER=0.1)
    asked = message("subscriptions/listen", notifications={"toolsListChanged": True})
    client = await post(asked, headers=from_page(browser))
    await client.head()
    assert (await client.next_message())["method"] == "notifications/subscriptions/acknowledged"
    await in_thread(browser.logout)
    assert [message["result"]["resultType"] for message in await client.rest()] == ["complete"]


def test_a_cookie_that_names_no_session_asks_no_database(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        assert caller(("Cookie", 'sessionid="\\000aaaaaaaaaaaaaaa"')) is None
