"""A model published as tools: who may what, of which rows, in which fields; validated as Django does."""

from typing import Annotated, Any

import pytest
from django import forms
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext
from pydantic import Field

from mcp_app.catalogue import completing
from mcp_app.catalogue.errors import InvalidDeclaration
from mcp_app.model_tools import ModelTools, register
from tests.derived.calling import call, offered, principal, schemas
from tests.derived.conftest import Shop
from tests.derived.shop.models import Author, Book, Cover, Novel, Tag

ALL = ("list", "get", "create", "update")


def publish(**members: Any) -> None:
    """`BookTools` for whole rows of the caller's own, unless `members` say otherwise."""

    def get_queryset(self: ModelTools, user: Any) -> QuerySet[Book]:
        return Book.objects.filter(owner=user.pk)

    def new_object(self: ModelTools, user: Any) -> Book:
        return Book(owner=user)

    defaults = {
        "fields": (
            "title",
            "author",
            "tags",
            "status",
            "price",
            "published",
            "sold_at",
            "pages",
            "details",
            "changed_at",
        ),
        "filters": ("title__icontains", "author", "tags", "price__gte", "published__year", "sold_at__lt", "status__in"),
        "ordering_fields": ("title", "price"),
        "operations": ALL,
        "get_queryset": get_queryset,
        "new_object": new_object,
    }
    register(Book)(type("BookTools", (ModelTools,), {**defaults, **members}))


def test_permissions_of_django_hide_each_tool(shop: Shop) -> None:
    publish()
    assert offered(None) == offered(shop.nobody) == set()
    assert offered(shop.looker) == {"list_books", "get_book"}
    assert offered(shop.ann) == {"list_books", "get_book", "create_book", "update_book"}


def test_reading_alone_is_published_by_default_under_names_that_options_change(shop: Shop) -> None:
    register(Book)(type("Books", (ModelTools,), {"fields": ("title",)}))
    options: dict[str, Any] = {"get": {"name": "look_up", "permissions": (), "queue": "fast"}}
    register(Book.objects.filter(owner=shop.ben))(
        type("Bens", (ModelTools,), {"fields": ("title",), "operations": options, "resource": False})
    )
    assert offered(shop.ann) == {"list_books", "get_book", "look_up"}
    assert call("look_up", None, pk=shop.bens.pk) == {"pk": shop.bens.pk, "title": "ben's"}
    assert call("look_up", None, pk=shop.anns.pk) == f"There is no book {shop.anns.pk}."


def test_what_is_not_named_is_not_published(shop: Shop) -> None:
    publish()
    for schema in schemas("create_book", shop.ann) + schemas("list_books", shop.ann):
        assert "secret" not in str(schema)
    assert "hidden" not in str(call("get_book", shop.ann, pk=shop.anns.pk))


def test_schemas_say_exactly_what_the_fields_take(shop: Shop) -> None:
    publish(read_only=("pages",))
    schema, shown = schemas("create_book", shop.ann)
    assert schema["required"] == ["title", "author", "price"]
    assert schema["additionalProperties"] is False
    assert schema["properties"] == {
        "title": {"type": "string", "minLength": 1, "maxLength": 20, "description": "As on the cover."},
        "author": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "status": {"enum": ["draft", "out"], "default": "draft", "description": "out: In the shops."},
        "price": {"type": ["string", "number"], "pattern": "^[+-]?[0-9]+(\\.[0-9]+)?$", "minimum": 0},
        "published": {"type": ["string", "null"], "format": "date"},
        "sold_at": {"type": ["string", "null"], "format": "date-time"},
        "details": {},
    }
    assert shown["properties"]["changed_at"] == {"type": "string", "format": "date-time"}
    assert shown["properties"]["title"]["description"] == "As on the cover"
    update, _ = schemas("update_book", shop.ann)
    assert update["required"] == ["pk"]
    assert "default" not in update["properties"]["status"]
    listing, page = schemas("list_books", shop.ann)
    assert listing["properties"]["status__in"] == {
        "type": "array",
        "items": {"type": "string", "enum": ["draft", "out"]},
        "maxItems": 100,
    }
    assert listing["properties"]["order_by"]["enum"] == ["title", "-title", "price", "-price"]
    assert page["properties"]["items"]["items"] == schemas("get_book", shop.ann)[1]


def test_rows_of_others_are_not_found(shop: Shop) -> None:
    publish()
    assert [each["pk"] for each in call("list_books", shop.ann)["items"]] == [shop.anns.pk]
    unknown = f"There is no book {shop.bens.pk}."
    assert call("get_book", shop.ann, pk=shop.bens.pk) == unknown
    assert call("update_book", shop.ann, pk=shop.bens.pk, title="mine") == unknown
    assert call("get_book", shop.ann, pk=10**12) == f"There is no book {10**12}."
    assert Book.objects.get(pk=shop.bens.pk).title == "ben's"


def test_a_row_is_created_with_defaults_and_comes_back_whole(shop: Shop) -> None:
    publish()
    given = {
        "title": " Emma ",
        "author": shop.anns.author_id,
        "tags": ["crime"],
        "price": 12.5,
        "sold_at": "2026-11-22T15:30:00+02:00",
        "details": {"b": [1, None], "a": "x"},
    }
    made = call("create_book", shop.ann, **given)
    assert made == {
        "pk": made["pk"],
        "title": "Emma",
        "author": shop.anns.author_id,
        "tags": ["crime"],
        "status": "draft",
        "price": "12.50",
        "published": None,
        "sold_at": "2026-11-22T13:30:00+00:00",
        "pages": 1,
        "details": {"b": [1, None], "a": "x"},
        "changed_at": made["changed_at"],
    }
    row = Book.objects.get(pk=made["pk"])
    assert (row.owner, row.secret) == (shop.ann, "")


def test_an_update_changes_what_was_given_and_nothing_else(shop: Shop) -> None:
    publish()
    shop.anns.tags.add("crime")
    changed = call("update_book", shop.ann, pk=shop.anns.pk, published="2020-02-29", status="out")
    assert (changed["status"], changed["published"], changed["title"]) == ("out", "2020-02-29", "ann's")
    assert changed["tags"] == ["crime"]
    assert call("update_book", shop.ann, pk=shop.anns.pk, published=None, status="draft")["published"] is None
    row = Book.objects.get(pk=shop.anns.pk)
    assert (row.secret, row.owner) == ("hidden", shop.ann)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"title": "LOUD"}, "- title: Do not shout."),
        ({"title": "   "}, "- title: This field is required."),
        ({"title": "x" * 21}, "- title: must have at most 20 characters"),
        ({"price": -1}, "- price: "),
        ({"price": "10.555"}, "- price: Ensure that there are no more than 2 decimal places."),
        ({"author": 10**6}, "- author: Select a valid choice. That choice is not one of the available choices."),
        ({"tags": ["nothing"]}, "- tags: Select a valid choice. nothing is not one of the available choices."),
        ({"status": "lost"}, "- status: "),
        ({"published": "tomorrow"}, "- published: This is no date; write it as 2026-11-22."),
        ({"sold_at": "9999-12-31T23:59:59-12:00"}, "- sold_at: This is no date and time; "),
        ({"status": "out"}, "- published: What is in the shops was published."),
        ({"title": "taken"}, "- Book with this Author and Title already exists."),
        ({"title": "forbidden"}, "- Constraint “shop_not_forbidden” is violated."),
        ({"secret": "mine"}, 'must not have "secret"'),
        ({"title": None}, "- title: "),
        ({"title": "a\x00b"}, "- title: Null characters are not allowed."),
        ({"details": {"a": [{"b\x00": 1}]}}, "- details: Null characters are not allowed."),
        ({"details": "\\\x00"}, "- details: Null characters are not allowed."),
        ({"details": None}, "- details: This field cannot be null."),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_does_not_fit_is_said_by_field_and_nothing_is_stored(
    shop: Shop, given: dict[str, Any], complaint: str
) -> None:
    publish()
    Book.objects.create(title="taken", author=shop.anns.author, price=1, owner=shop.ann)
    new = {"title": "new", "author": shop.anns.author_id, "price": "1", "published": None}
    before = list(Book.objects.order_by("pk").values())
    told = call("create_book", shop.ann, **{**new, **given})
    assert told.startswith("The arguments do not fit this tool:\n- ")
    assert complaint in told
    assert complaint in call("update_book", shop.ann, pk=shop.anns.pk, **given)
    assert list(Book.objects.order_by("pk").values()) == before


@pytest.mark.parametrize("details", [{"a": [None]}, "\\u0000", "\\\\u0000", "null", "", {}, [], 0, False])
def test_any_other_json_is_kept_as_it_was_given(shop: Shop, details: Any) -> None:
    publish()
    assert call("update_book", shop.ann, pk=shop.anns.pk, details=details)["details"] == details
    assert call("get_book", shop.ann, pk=shop.anns.pk)["details"] == details


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


def test_whether_a_row_may_be_changed_is_asked_of_it_as_it_is_when_locked(shop: Shop) -> None:
    def has_object_permission(self: ModelTools, user: Any, action: str, obj: Any) -> bool:
        may = action == "view" or obj.status == "draft"
        Book.objects.filter(pk=obj.pk).update(status="out")  # somebody has changed it before it was locked
        return may

    publish(has_object_permission=has_object_permission)
    assert call("update_book", shop.ann, pk=shop.anns.pk, pages=2) == "You may not change this."


def test_a_row_takes_the_permission_on_itself_where_that_is_asked_for(shop: Shop, monkeypatch: Any) -> None:
    granted = {("shop.view_book", shop.anns.pk)}
    plain = User.has_perm

    def has_perm(self: User, perm: str, obj: Any = None) -> bool:
        return plain(self, perm) if obj is None else (perm, obj.pk) in granted

    monkeypatch.setattr(User, "has_perm", has_perm)
    publish(object_permissions=True, get_queryset=lambda self, user: Book.objects.all())
    assert [each["pk"] for each in call("list_books", shop.ann)["items"]] == [shop.anns.pk]
    assert call("get_book", shop.ann, pk=shop.bens.pk) == f"There is no book {shop.bens.pk}."
    assert call("update_book", shop.ann, pk=shop.bens.pk, pages=2) == f"There is no book {shop.bens.pk}."
    assert call("update_book", shop.ann, pk=shop.anns.pk, pages=2) == "You may not change this."
    granted.add(("shop.change_book", shop.anns.pk))
    assert call("update_book", shop.ann, pk=shop.anns.pk, pages=2)["pages"] == 2


def test_a_list_is_narrowed_sorted_and_paged_within_bounds(shop: Shop) -> None:
    publish(max_limit=3)
    for number in range(5):
        book = Book.objects.create(
            title=f"Part {number}",
            author=shop.anns.author,
            price=number,
            owner=shop.ann,
            published=f"202{number}-01-01",
            sold_at=f"202{number}-06-01T00:00:00Z",
        )
        book.tags.set(["crime", "classic"])

    def titles(**arguments: Any) -> list[str]:
        return [each["title"] for each in call("list_books", shop.ann, **arguments)["items"]]

    assert titles() == ["Part 0", "Part 1", "Part 2"]
    assert titles(offset=3) == ["Part 3", "Part 4", "ann's"]
    assert call("list_books", shop.ann)["next_offset"] == 3
    assert call("list_books", shop.ann, offset=3)["next_offset"] is None
    assert titles(order_by="-price", limit=2) == ["ann's", "Part 4"]
    assert titles(title__icontains="PART", price__gte="3.5") == ["Part 4"]
    assert titles(tags="crime", limit=2) == ["Part 0", "Part 1"]
    assert titles(published__year=2021) == ["Part 1"]
    assert titles(sold_at__lt="2021-07-01T00:00:00Z", price__gte=1) == ["Part 1"]
    assert titles(status__in=["out"]) == titles(author=shop.bens.author_id) == []
    for beyond in (
        {"published__year": 0},
        {"published__year": 10_000},
        {"limit": 4},
        {"limit": 0},
        {"offset": 10_001},
        {"order_by": "secret"},
        {"owner": 1},
    ):
        assert "do not fit" in call("list_books", shop.ann, **beyond)
    assert "do not fit" in call("list_books", shop.ann, title__icontains="a\x00b")
    assert "do not fit" in call("list_books", shop.ann, author=2**63)


def test_a_longer_list_takes_no_more_queries(shop: Shop) -> None:
    publish()

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            call("list_books", shop.ann)
        return len(captured)

    shop.anns.tags.set(["crime"])
    few = queries()
    for number in range(20):
        book = Book.objects.create(title=f"Part {number}", author=shop.anns.author, price=1, owner=shop.ann)
        book.tags.set(["crime", "classic"])
    assert queries() == few


def test_methods_of_the_class_are_read_only_columns(shop: Shop) -> None:
    def author_name(self: ModelTools, row: Book) -> Annotated[str, Field(max_length=50)]:
        """Who wrote it."""
        return row.author.name

    publish(fields=("title", "author_name"), author_name=author_name, operations=("get", "update"), ordering_fields=())
    assert call("get_book", shop.ann, pk=shop.anns.pk)["author_name"] == "A. ann"
    taken, shown = schemas("update_book", shop.ann)
    assert set(taken["properties"]) == {"pk", "title"}
    assert shown["properties"]["author_name"] == {"type": "string", "maxLength": 50, "description": "Who wrote it."}


def test_an_authors_form_validates_with_the_fields_that_were_not_given(shop: Shop) -> None:
    class BookForm(forms.ModelForm):
        def clean(self) -> dict[str, Any] | None:
            if self.cleaned_data["author"].name not in self.cleaned_data["title"]:
                self.add_error("author", "The title names another author.")
            return super().clean()

    publish(form=BookForm)
    assert "- author: The title names another author." in call("update_book", shop.ann, pk=shop.anns.pk, title="by B.")
    assert call("update_book", shop.ann, pk=shop.anns.pk, title="by A. ann")["title"] == "by A. ann"


def test_an_authors_form_says_which_rows_a_relation_takes_of_those_that_the_caller_may_name(shop: Shop) -> None:
    class BookForm(forms.ModelForm):
        author = forms.ModelChoiceField(Author.objects.filter(name__endswith="ben"))

    publish(form=BookForm)
    new = {"title": "new", "price": 1}
    assert "- author: Select a valid choice." in call("create_book", shop.ann, author=shop.anns.author_id, **new)
    assert call("create_book", shop.ann, author=shop.bens.author_id, **new)["author"] == shop.bens.author_id


def test_who_may_not_see_what_they_wrote_is_told_its_key(shop: Shop) -> None:
    publish()
    shop.ann.user_permissions.remove(*shop.ann.user_permissions.filter(codename="view_book"))
    made = call("create_book", User.objects.get(pk=shop.ann.pk), title="new", author=shop.anns.author_id, price=1)
    assert made == {"pk": Book.objects.get(title="new").pk}


def test_a_token_that_may_write_and_not_read_is_told_the_key(shop: Shop) -> None:
    publish(operations={"get": {"scopes": ["books:read"]}, "update": {"scopes": ["books:write"]}})
    told = call("update_book", shop.ann, ["books:write"], pk=shop.anns.pk, pages=2)
    assert told == {"pk": shop.anns.pk}
    assert call("update_book", shop.ann, ["books:write", "books:read"], pk=shop.anns.pk, pages=3)["pages"] == 3


@pytest.mark.parametrize("failing", ["save", "tags"])
def test_a_write_that_fails_leaves_nothing(shop: Shop, monkeypatch: Any, failing: str) -> None:
    def save(self: ModelTools, user: Any, obj: Book) -> None:
        obj.save()
        raise RuntimeError("the printer is on fire")

    def no_tags(*_: Any, **__: Any) -> None:
        raise RuntimeError("the printer is on fire")

    publish(**({"save": save} if failing == "save" else {}))
    if failing == "tags":
        monkeypatch.setattr(type(shop.anns.tags), "set", no_tags)
    new = {"title": "new", "author": shop.anns.author_id, "price": 1, "tags": ["crime"]}
    assert "internal error" in call("create_book", shop.ann, **new)
    assert not Book.objects.filter(title="new").exists()


def test_what_the_database_alone_refuses_is_a_conflict(shop: Shop) -> None:
    def save(self: ModelTools, user: Any, obj: Book) -> None:
        Book.objects.create(title=obj.title, author=obj.author, price=1)  # somebody was faster
        obj.save()

    publish(save=save)
    told = call("create_book", shop.ann, title="new", author=shop.anns.author_id, price=1)
    assert told.startswith("This conflicts with what is stored meanwhile")
    assert not Book.objects.filter(title="new").exists()


def test_routers_say_where_rows_are_read_and_written(shop: Shop, settings: Any) -> None:
    asked = []

    class Router:
        def db_for_read(self, model: Any, **hints: Any) -> str | None:
            asked.append(("read", model))
            return "default" if model is Book else None

        def db_for_write(self, model: Any, **hints: Any) -> str | None:
            asked.append(("write", model))
            return "default" if model is Book else None

    publish()
    settings.DATABASE_ROUTERS = [Router(), *settings.DATABASE_ROUTERS]
    call("list_books", shop.ann)
    assert ("read", Book) in asked
    assert ("write", Book) not in asked
    call("update_book", shop.ann, pk=shop.anns.pk, pages=3)
    assert ("write", Book) in asked


@pytest.mark.parametrize(
    ("model", "members", "why"),
    [
        (Book, {}, "it names no fields"),
        (Book, {"fields": "__all__"}, "nothing is published that is not named"),
        (Book, {"fields": ("titel",)}, "shop.Book has no field titel, nor Tools such a method"),
        (Book, {"fields": ("title",), "read_only": ("price",)}, "read_only names price"),
        (Book, {"fields": ("title",), "filters": ("title__regex",)}, "no lookup that can be offered"),
        (Book, {"fields": ("title",), "filters": ("titel",)}, "names no field"),
        (Book, {"fields": ("title",), "filters": ("price__icontains",)}, "no lookup that can be offered"),
        (Book, {"fields": ("title",), "filters": ("details",)}, "no one type"),
        (Book, {"fields": ("title",), "ordering": ("rank",)}, "ordered by rank"),
        (Book, {"fields": ("title",), "ordering_fields": ("tags",)}, "ordered by tags"),
        (Book, {"fields": ("title",), "filters": ("limit",)}, "write limit__exact"),
        (Book, {"fields": ("title",), "operations": ("delete",)}, "no operation 'delete'"),
        (Tag, {"fields": ("is_secret",), "operations": ("create",)}, "nobody says the primary key"),
        (Cover, {"fields": ("image",), "operations": ("create",)}, "image is a FileField, which JSON cannot fill"),
        (Cover, {"fields": ("thumbnail",), "read_only": ("thumbnail",)}, "which JSON has no type for"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_published_is_refused_where_it_is_declared(
    model: Any, members: dict[str, Any], why: str
) -> None:
    with pytest.raises(InvalidDeclaration, match="cannot be offered") as refused:
        register(model)(type("Tools", (ModelTools,), members))
    assert why in str(refused.value)


def test_keys_need_not_be_numbers(shop: Shop) -> None:
    register(Tag)(type("Tags", (ModelTools,), {"fields": ("word", "is_secret"), "operations": ("get", "list")}))
    root = User.objects.create_superuser("root")
    assert call("get_tag", root, pk="spy") == {"pk": "spy", "word": "spy", "is_secret": True}


def test_a_row_of_two_tables_is_one(shop: Shop) -> None:
    fields = ("title", "author", "price", "length", "words", "letters")
    members = {"fields": fields, "operations": ALL, "filters": ("length__gte",)}
    register(Novel)(type("Novels", (ModelTools,), members))
    root = User.objects.create_superuser("root")
    made = call("create_novel", root, title="Emma", author=shop.anns.author_id, price=1)
    assert (made["words"], made["letters"]) == (None, None)
    pk = made["pk"]
    changed = call("update_novel", root, pk=pk, title="Eve", words=7, length="P1DT2H")
    assert (changed["title"], changed["letters"], changed["length"]) == ("Eve", 42, "P1DT02H00M00S")
    assert call("list_novels", root, length__gte="P1D") == {"items": [changed], "next_offset": None}
    assert "- length: This is no duration" in call("update_novel", root, pk=pk, length="P999999999D")
    assert "- length__gte: This is no duration" in call("list_novels", root, length__gte="P999999999D")
    found = completing.complete_template("model://shop.novel/{pk}", "pk", str(pk), {}, principal(root))
    assert found["completion"]["values"] == [str(pk)]


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
