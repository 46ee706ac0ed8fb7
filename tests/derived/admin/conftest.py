"""Users of an admin site: staff with all rights and with some, and users who are not staff."""

from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import User

from tests.derived.calling import user
from tests.derived.conftest import Shop
from tests.derived.shop.models import Author, Book

EVERYTHING = [
    f"{action}_{model}"
    for action in ("view", "add", "change", "delete")
    for model in ("book", "author", "tag", "review", "loan", "cover")
]


@dataclass
class Staff:
    root: User
    """A superuser."""
    ann: User
    """Has all permissions, and owns a book."""
    looker: User
    """May view."""
    visitor: User
    """Has all permissions, but is not staff."""
    anns: Book
    bens: Book
    author: Author


@pytest.fixture
def staff(shop: Shop) -> Staff:
    for each in (shop.ann, shop.looker):
        each.is_staff = True
        each.save()
    shop.ann.user_permissions.set([])
    root, ann = user("root", is_staff=True, is_superuser=True), _with_everything(shop.ann)
    return Staff(root, ann, shop.looker, user("visitor", *EVERYTHING), shop.anns, shop.bens, shop.anns.author)


def _with_everything(one: User) -> User:
    given: Any = user("pattern", *EVERYTHING).user_permissions.all()
    one.user_permissions.set(given)
    return User.objects.get(pk=one.pk)
