"""A registry for each test, and the rows of a small shop."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from mcp_app.catalogue.declaration import isolated_registries
from tests.derived.calling import user
from tests.derived.shop.models import Author, Book, Tag

EVERYTHING = ("view_book", "add_book", "change_book")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.get_closest_marker("django_db") is None:
            item.add_marker(pytest.mark.django_db(databases="__all__"))


@dataclass
class Shop:
    """Users: two with all rights, a book and an author; one who may view; one without rights."""

    ann: User
    ben: User
    looker: User
    nobody: User
    anns: Book
    bens: Book


@pytest.fixture(autouse=True)
def _empty_registry() -> Iterator[None]:
    with isolated_registries():
        yield


@pytest.fixture
def shop(db: Any) -> Shop:
    ann, ben = user("ann", *EVERYTHING), user("ben", *EVERYTHING)
    authors = {each: Author.objects.create(name=f"A. {each.username}", owner=each) for each in (ann, ben)}
    for word in ("classic", "crime"):
        Tag.objects.create(word=word)
    Tag.objects.create(word="spy", is_secret=True)
    anns, bens = (
        Book.objects.create(title=f"{each.username}'s", author=authors[each], price="9.50", owner=each, secret="hidden")
        for each in (ann, ben)
    )
    return Shop(ann, ben, user("looker", "view_book"), user("nobody"), anns, bens)
