"""A call runs in the first language that its client accepts and the site has. So do reads of resources."""

from typing import Any

import pytest
from django.utils import timezone, translation
from django.utils.translation import gettext_lazy

from mcp_app.resources import ResourceError, resource
from tests.support.asgi_client import call, message, post
from tests.support.worker import Worker, row


@pytest.mark.parametrize(
    ("header", "language"),
    [
        (None, ""),
        ("de-AT, en;q=0.5", "de"),
        ("tlh, fr;q=0.8, de;q=0.7", "fr"),
        ("*", ""),
        ("tlh", ""),
        ("x" * 2000, ""),
        ("de, \u00ff", ""),
        (",".join(["de"] * 2000), "de"),
    ],
    ids=lambda value: str(value)[:12],
)
async def test_the_first_language_that_the_site_has_is_kept_with_the_call(
    worker: Worker, header: str | None, language: str
) -> None:
    client = await post(call(), headers={} if header is None else {"accept-language": header})
    request_id = await worker.claim()
    assert (await row(request_id)).language == language
    await worker.finish(request_id)
    assert "result" in await client.json()


async def test_without_translations_there_is_one_language(worker: Worker, settings: Any) -> None:
    settings.USE_I18N = False
    client = await post(call(), headers={"accept-language": "de"})
    request_id = await worker.claim()
    assert (await row(request_id)).language == ""
    await worker.finish(request_id)
    assert "result" in await client.json()


async def test_resources_speak_the_readers_language_in_the_sites_time_zone() -> None:
    @resource("x://words")
    def words() -> dict[str, str]:
        """Return a text and the time zone, and leave others active."""
        found = {"yes": str(gettext_lazy("Yes")), "zone": timezone.get_current_timezone_name()}
        translation.activate("fr")
        timezone.activate("Asia/Tokyo")
        return found

    @resource("x://error")
    def error() -> str:
        raise ResourceError(gettext_lazy("This field is required."))

    async def said(uri: str, language: str) -> Any:
        answer = await (await post(message("resources/read", uri=uri), headers={"accept-language": language})).json()
        return answer["error"]["message"] if "error" in answer else answer["result"]["contents"][0]["text"]

    for _ in range(3):
        assert await said("x://words", "de") == '{"yes": "Ja", "zone": "UTC"}'
        assert await said("x://words", "en") == '{"yes": "Yes", "zone": "UTC"}'
    assert await said("x://error", "de") == "Dieses Feld ist zwingend erforderlich."
