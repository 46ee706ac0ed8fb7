"""A router publishes the viewsets whose basenames are named, and no others."""

from typing import Any

import pytest
from rest_framework import mixins, permissions, viewsets
from rest_framework.decorators import action
from rest_framework.response import Response
from rest_framework.routers import DefaultRouter, Route, SimpleRouter

from mcp_app.catalogue.errors import InvalidDeclaration
from mcp_app.drf_tools import router_tools
from tests.derived.calling import call, offered, schemas, user
from tests.derived.conftest import Shop
from tests.derived.drf.test_viewsets import AuthorSerializer, BookViewSet
from tests.derived.shop.models import Author, Book


class AuthorViewSet(mixins.ListModelMixin, viewsets.GenericViewSet):
    serializer_class = AuthorSerializer
    queryset = Author.objects.order_by("name")
    permission_classes = (permissions.IsAuthenticated,)

    @action(detail=False)
    def address(self, request: Any) -> Response:
        return Response({"list": self.reverse_action("list")})

    @action(detail=False, url_path=r"by/(?P<name>\w+)")
    def by_name(self, request: Any, name: str) -> Response:
        return Response(name)


class OldBookViewSet(BookViewSet):
    queryset = Book.objects.filter(status="out").order_by("title")


def router() -> DefaultRouter:
    made = DefaultRouter()
    made.register("books", BookViewSet)
    made.register("old", OldBookViewSet, basename="archived-book")
    made.register("authors", AuthorViewSet, basename="authors")
    return made


def test_only_named_basenames_are_published_each_as_its_list_says(shop: Shop) -> None:
    router_tools(router(), read=["archived-book"], write=["book"])
    assert offered(shop.ann) == {"list_archived_books", "get_archived_book", "create_book", "update_book"}


def test_delete_and_actions_are_published_if_they_are_named(shop: Shop) -> None:
    router_tools(router(), delete=["book"], actions={"book": ["shred", "update"], "authors": {"list": {"name": "who"}}})
    assert offered(shop.ann) == {"delete_book", "shred_book", "replace_book", "who"}
    assert schemas("shred_book", shop.ann)[0]["required"] == ["pk"]
    assert [each["name"] for each in call("who", shop.ann)] == ["A. ann", "A. ben"]


def test_options_apply_to_an_action_that_a_list_publishes(shop: Shop) -> None:
    router_tools(router(), read=["book"], actions={"book": {"list": {"permissions": ["shop.add_book"]}}})
    assert offered(shop.looker) == {"get_book"}
    assert offered(shop.ann) == {"get_book", "list_books"}


def test_two_viewsets_of_one_model_have_tools_of_their_own(shop: Shop) -> None:
    Book.objects.filter(pk=shop.anns.pk).update(status="out", published="2026-01-01")
    router_tools(router(), read=["book", "archived-book"])
    assert len(call("list_books", shop.ann)["results"]) == 2
    assert [each["id"] for each in call("list_archived_books", shop.ann)["results"]] == [shop.anns.pk]
    assert call("get_archived_book", shop.ann, pk=shop.bens.pk).startswith("No Book matches")


def test_the_viewset_checks_permissions_as_over_http(shop: Shop) -> None:
    router_tools(router(), read=["authors"], write=["book"])
    assert call("list_authors", None) == "Authentication credentials were not provided."
    assert call("update_book", user("visitor"), pk=shop.anns.pk, pages=9).startswith("You do not have permission")
    assert call("update_book", shop.ann, pk=shop.anns.pk, pages=9)["pages"] == 9


def test_an_action_of_the_viewset_knows_its_basename(shop: Shop, settings: Any) -> None:
    named = router()
    urls = type("Urls", (), {"urlpatterns": named.urls})
    settings.ROOT_URLCONF = urls
    router_tools(named, actions={"authors": ["address"]})
    assert call("address_authors", shop.ann) == {"list": "https://testserver/authors/"}


class ReadOnlyRouter(SimpleRouter):
    routes = (Route("^{prefix}$", {"get": "list"}, "{basename}-list", detail=False, initkwargs={}),)


class ShelfRouter(SimpleRouter):
    """A router whose addresses contain the key of another row, as drf-nested-routers makes them."""

    routes = (
        Route("^shelf/(?P<shelf>[0-9]+)/{prefix}$", {"get": "list"}, "{basename}-list", detail=False, initkwargs={}),
    )


@pytest.mark.parametrize(
    ("made", "lists", "facts"),
    [
        (SimpleRouter, {"read": ["boook"]}, ["'boook'", "it has book"]),
        (SimpleRouter, {"actions": {"boook": ["list"]}}, ["'boook'"]),
        (SimpleRouter, {"read": "book"}, ["read", "a list of names"]),
        (SimpleRouter, {"actions": {"book": "list"}}, ["actions['book']", "a list of names"]),
        (SimpleRouter, {}, ["no basename"]),
        (SimpleRouter, {"actions": {"book": ["helper"]}}, ["'book'", "'helper'", "no address"]),
        (ReadOnlyRouter, {"actions": {"book": ["retrieve"]}}, ["'book'", "'retrieve'", "no address"]),
        (ReadOnlyRouter, {"write": ["book"]}, ["'book'", "create or partial_update"]),
        (ShelfRouter, {"read": ["book"]}, ["'book'", "nested"]),
    ],
    ids=str,
)
def test_what_cannot_be_published_is_refused(made: Any, lists: dict[str, Any], facts: list[str]) -> None:
    router = made()
    router.register("books", BookViewSet)
    with pytest.raises(InvalidDeclaration) as refused:
        router_tools(router, **lists)
    assert [fact for fact in facts if fact not in str(refused.value)] == []
    assert offered(None) == set()


def test_an_action_with_arguments_in_its_address_is_refused() -> None:
    router_tools(router(), read=["authors"])
    with pytest.raises(InvalidDeclaration, match=r"'authors'.*'by_name'"):
        router_tools(router(), actions={"authors": ["by_name"]})


def test_basenames_that_make_the_same_name_are_both_named() -> None:
    made = router()
    made.register("more", BookViewSet, basename="books")
    with pytest.raises(InvalidDeclaration, match=r"'book' and 'books' .*'list_books'"):
        router_tools(made, read=["book", "books"])
    assert offered(None) == set()
    router_tools(made, read=["book"], actions={"books": {"list": {"name": "more_books"}}})
    assert offered(None) == {"list_books", "get_book", "more_books"}


class StaffRouter(SimpleRouter):
    """A router that guards the addresses of its viewsets itself."""

    routes = tuple(
        route._replace(initkwargs={**route.initkwargs, "permission_classes": [permissions.IsAdminUser]})
        for route in SimpleRouter.routes
        if isinstance(route, Route)
    )


def test_what_the_router_sets_for_its_viewsets_applies(shop: Shop) -> None:
    made = StaffRouter()
    made.register("books", BookViewSet)
    router_tools(made, read=["book"])
    assert call("list_books", shop.ann).startswith("You do not have permission")
    assert call("get_book", shop.ann, pk=shop.anns.pk).startswith("You do not have permission")
    assert call("get_book", user("boss", is_staff=True), pk=shop.anns.pk)["title"] == "ann's"


class FileViewSet(viewsets.ViewSet):
    permission_classes = ()

    def retrieve(self, request: Any, pk: Any) -> Response:
        return Response({"key": pk})


class LetterViewSet(FileViewSet):
    lookup_value_regex = "[a-z]+"


class NumberViewSet(FileViewSet):
    lookup_value_converter = "int"


@pytest.mark.parametrize(
    ("viewset", "uses_regex", "keys", "refused"),
    [
        (FileViewSet, True, {"a1": "a1"}, ["../etc", "a.b", "a/b", ""]),
        (FileViewSet, False, {"a.b": "a.b"}, ["../etc", "a/b", ""]),
        (LetterViewSet, True, {"abc": "abc"}, ["abc1", "abc\n", "ABC"]),
        (NumberViewSet, False, {"7": 7}, ["x", "-7", "7/8"]),
    ],
)
def test_only_keys_that_an_address_can_have_are_found(
    shop: Shop, viewset: Any, uses_regex: bool, keys: dict[str, Any], refused: list[str]
) -> None:
    made = SimpleRouter(use_regex_path=uses_regex)
    made.register("files", viewset, basename="file")
    router_tools(made, read=["file"])
    assert {key: call("get_file", shop.ann, pk=key)["key"] for key in keys} == keys
    assert {call("get_file", shop.ann, pk=key) for key in refused} == {"Not found."}
