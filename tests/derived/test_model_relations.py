"""Relations in model tools: callers cannot set, find or remove rows that they may not see."""

from typing import Any

import pytest
from django import forms
from django.contrib.auth.models import User
from django.db.models import QuerySet

from mcp_app.model_tools import ModelTools, register
from tests.derived.books import publish
from tests.derived.calling import call
from tests.derived.conftest import Shop
from tests.derived.shop.models import Author, Tag


def test_a_relation_names_only_what_the_caller_may_see(shop: Shop) -> None:
    class AuthorTools(ModelTools):
        fields = ("name",)

        def get_queryset(self, user: Any) -> QuerySet[Author]:
            return Author.objects.filter(owner=user.pk)

    register(Author)(AuthorTools)
    publish()
    other = Author.objects.create(name="B. Zola", owner=shop.ann)
    new = {"title": "new", "price": "1"}
    foreign = call("create_book", shop.ann, author=shop.bens.author_id, **new)
    assert foreign == call("create_book", shop.ann, author=10**6, **new)  # the same words
    assert foreign == call("create_book", shop.ann, author=other.pk, **new)  # against limit_choices_to
    assert call("create_book", shop.ann, author=shop.anns.author_id, **new)["author"] == shop.anns.author_id


def test_what_the_caller_cannot_see_of_a_many_to_many_relation_stays(shop: Shop) -> None:
    def related(self: ModelTools, user: Any, field: Any) -> QuerySet[Any]:
        rows = field.remote_field.model.objects.all()
        return rows.filter(is_secret=False) if field.name == "tags" else rows

    publish(get_related_queryset=related)
    shop.anns.tags.set(["crime", "spy"])
    assert call("get_book", shop.ann, pk=shop.anns.pk)["tags"] == ["crime"]
    assert "spy is not one" in call("update_book", shop.ann, pk=shop.anns.pk, tags=["spy"])
    assert call("update_book", shop.ann, pk=shop.anns.pk, tags=["classic"])["tags"] == ["classic"]
    assert set(shop.anns.tags.values_list("pk", flat=True)) == {"classic", "spy"}


@pytest.mark.parametrize(
    ("given", "hidden", "seen"),
    [
        ({"tags": "spy"}, 0, 0),
        ({"tags__word__startswith": "s"}, 0, 0),
        ({"tags__isnull": False}, 0, 1),
        ({"tags__isnull": True}, 1, 0),
        ({"tags": "crime"}, 0, 1),
    ],
)
def test_no_filter_tells_of_what_the_caller_cannot_see_of_a_many_to_many_relation(
    shop: Shop, given: Any, hidden: int, seen: int
) -> None:
    def related(self: ModelTools, user: Any, field: Any) -> QuerySet[Any]:
        return Tag.objects.filter(is_secret=False)

    publish(get_related_queryset=related, filters=("tags", "tags__isnull", "tags__word__startswith"))
    shop.anns.tags.set(["spy"])
    assert len(call("list_books", shop.ann, **given)["items"]) == hidden
    shop.anns.tags.add("crime")
    assert len(call("list_books", shop.ann, **given)["items"]) == seen


def test_an_authors_form_says_which_rows_a_relation_takes_of_those_that_the_caller_may_name(shop: Shop) -> None:
    class BookForm(forms.ModelForm):
        author = forms.ModelChoiceField(Author.objects.filter(name__endswith="ben"))

    publish(form=BookForm)
    new = {"title": "new", "price": 1}
    assert "- author: Select a valid choice." in call("create_book", shop.ann, author=shop.anns.author_id, **new)
    assert call("create_book", shop.ann, author=shop.bens.author_id, **new)["author"] == shop.bens.author_id


def test_of_classes_for_others_no_row_can_be_named(shop: Shop) -> None:
    publish(operations=("create",))
    register(Author)(type("Staffs", (ModelTools,), {"fields": ("name",)}))
    options = {"list": {"name": "browse", "permissions": ()}}
    rows = Author.objects.filter(owner=shop.anns.owner)
    register(rows)(type("Publics", (ModelTools,), {"fields": ("name",), "operations": options}))
    new = {"title": "new", "price": 1}
    assert "- author: Select a valid choice." in call("create_book", shop.ann, author=shop.bens.author_id, **new)
    assert "pk" in call("create_book", shop.ann, author=shop.anns.author_id, **new)
    root = User.objects.create_superuser("root")
    assert "pk" in call("create_book", root, author=shop.bens.author_id, **new)
