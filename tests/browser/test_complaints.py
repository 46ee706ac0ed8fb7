"""The tests detect pages that violate the policy, have a script error or open a dialog."""

from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import collect_complaints
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Browser

POLICY = "Content Security Policy"
BREACHES = {
    "inline script": ("document.body.append(Object.assign(document.createElement('script'), {text: '1'}))", POLICY),
    "inline style": ("document.body.innerHTML = '<p style=\"color: red\">x</p>'", POLICY),
    "handler": ("document.body.innerHTML = '<img src=x onerror=alert(1)>'", POLICY),
    "error": ("setTimeout(() => missing())", "missing is not defined"),
    "dialog": ("setTimeout(() => alert('boo'))", "dialog: boo"),
}


@pytest.mark.parametrize("breach", BREACHES)
def test_a_breach_of_the_policy_is_noticed(breach: str, browser: "Browser", base_url: str) -> None:
    script, words = BREACHES[breach]
    complaints: list[str] = []
    with browser.new_context(base_url=base_url) as context:
        collect_complaints(context, complaints)
        page = context.new_page()
        page.goto("/admin/login/")
        page.evaluate(f"() => {{ {script} }}")

        def noticed() -> bool:
            page.evaluate("1")  # lets Playwright handle the events
            return any(words in complaint for complaint in complaints)

        eventually(noticed, lambda: f"{words!r} among {complaints}")
