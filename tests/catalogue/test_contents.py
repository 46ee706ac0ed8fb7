"""Return values of resources and prompts, and the contents and messages made from them."""

import base64
from typing import Any

import mcp_types
import pytest
from django.utils.translation import gettext_lazy
from pydantic import BaseModel

from mcp_app.catalogue.content.contents import to_contents, to_messages
from mcp_app.catalogue.errors import InvalidResult
from mcp_app.prompts import Audio, Image, assistant, user

URI = "x://a"
BLOB = base64.b64encode(b"\x00\x01").decode()


class Note(BaseModel):
    text: str


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text", {"mimeType": "text/plain", "text": "text"}),
        ("", {"mimeType": "text/plain", "text": ""}),
        (gettext_lazy("lazy"), {"mimeType": "text/plain", "text": "lazy"}),
        (b"\x00\x01", {"mimeType": "application/octet-stream", "blob": BLOB}),
        (Image(b"\x00\x01"), {"mimeType": "image/png", "blob": BLOB}),
        (Audio(b"\x00\x01"), {"mimeType": "audio/wav", "blob": BLOB}),
        (Note(text="é"), {"mimeType": "application/json", "text": '{"text": "é"}'}),
        ([], {"mimeType": "application/json", "text": "[]"}),
        ({"a": None}, {"mimeType": "application/json", "text": '{"a": null}'}),
    ],
)
def test_a_value_becomes_contents_of_its_kind(value: object, content: dict[str, Any]) -> None:
    assert to_contents(URI, None, value) == [{"uri": URI, **content}]
    [declared] = to_contents(URI, "text/x-own", value)
    assert declared["mimeType"] == "text/x-own"


def test_ready_made_contents_stay_what_they_are() -> None:
    text = mcp_types.TextResourceContents(uri="x://a/1", text="one", mime_type="text/plain")
    blob = mcp_types.BlobResourceContents(uri="x://a/2", blob=BLOB)
    wire = [{"uri": "x://a/1", "mimeType": "text/plain", "text": "one"}, {"uri": "x://a/2", "blob": BLOB}]
    assert to_contents(URI, None, [text, blob]) == wire
    assert to_contents(URI, None, text) == wire[:1]


@pytest.mark.parametrize(
    "value",
    [
        None,
        object(),
        float("nan"),
        mcp_types.BlobResourceContents(uri="x://a", blob="no base64!"),
        mcp_types.TextResourceContents(uri="no uri", text=""),
    ],
)
def test_what_cannot_be_sent_is_refused(value: object) -> None:
    with pytest.raises(InvalidResult):
        to_contents(URI, None, value)


def test_messages_are_the_users_unless_said_otherwise() -> None:
    text = {"type": "text", "text": "hi"}
    image = {"type": "image", "data": BLOB, "mimeType": "image/png"}
    assert to_messages("hi") == [{"role": "user", "content": text}]
    assert to_messages([user("hi"), assistant("hi"), Image(b"\x00\x01")]) == [
        {"role": "user", "content": text},
        {"role": "assistant", "content": text},
        {"role": "user", "content": image},
    ]


@pytest.mark.parametrize(
    "value",
    [
        [],
        None,
        {"role": "user"},
        [["hi"]],
        mcp_types.ImageContent(data="no base64!", mime_type="image/png"),
        mcp_types.ImageContent(data=BLOB, mime_type="png"),
        Audio(b"\x00\x01", mime_type=""),
        mcp_types.EmbeddedResource(resource=mcp_types.TextResourceContents(uri=URI, text="no type")),
    ],
)
def test_what_is_no_message_is_refused(value: object) -> None:
    with pytest.raises(InvalidResult):
        to_messages(value)
