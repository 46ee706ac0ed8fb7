"""A viewset's actions as tools.

DRF applies its permissions, throttles, filters, pagination and serializers.
"""

from datetime import datetime
from io import BytesIO
from typing import Any

import pytest
from django.http import FileResponse, HttpResponse, JsonResponse
from rest_framework import filters, pagination, permissions, serializers, throttling, viewsets
from rest_framework.decorators import action
from rest_framework.response import Response

from mcp_app.catalogue.errors import InvalidDeclaration
from mcp_app.drf_tools import viewset_tools
from tests.derived.calling import call, schemas, user
from tests.derived.conftest import Shop
from tests.derived.shop.models import Author, Book

pytestmark = pytest.mark.usefixtures("_published")


class AuthorSerializer(serializers.ModelSerializer):
    class Meta:
        model = Author
        fields = ("id", "name")


class Upper(serializers.CharField):
    def to_internal_value(self, data: Any) -> str:
        return str(super().to_internal_value(data)).upper()


class BookSerializer(serializers.ModelSerializer):
    owner = serializers.HiddenField(default=serializers.CurrentUserDefault())
    notes = serializers.ListField(child=serializers.CharField(), max_length=2, write_only=True, required=False)
    code = Upper(write_only=True, required=False, help_text="Any")
    written_by = AuthorSerializer(source="author", read_only=True)

    class Meta:
        model = Book
        fields = (
            "id",
            "title",
            "author",
            "status",
            "price",
            "published",
            "pages",
            "owner",
            "notes",
            "code",
            "written_by",
        )

    def validate(self, attrs: Any) -> Any:
        attrs.pop("notes", None)
        attrs.pop("code", None)
        return attrs


class Pages(pagination.LimitOffsetPagination):
    default_limit = 2
    max_limit = 2


class Twice(throttling.UserRateThrottle):
    rate = "2/day"


class BookViewSet(viewsets.ModelViewSet):
    serializer_class = BookSerializer
    queryset = Book.objects.order_by("title")
    permission_classes = (permissions.DjangoModelPermissions,)
    filter_backends = (filters.SearchFilter, filters.OrderingFilter)
    search_fields = ("title",)
    pagination_class = Pages

    @action(detail=True, methods=["post"], permission_classes=[permissions.IsAdminUser])
    def shred(self, request: Any, pk: Any = None) -> Response:
        """Shred it."""
        self.get_object().delete()
        return Response(status=204)

    @action(detail=True, methods=["post"], serializer_class=AuthorSerializer)
    def rename_author(self, request: Any, pk: Any = None) -> Response:
        serializer = self.get_serializer(self.get_object().author, data=request.data)
        serializer.is_valid(raise_exception=True)
        serializer.save()
        return Response(serializer.data)

    @action(detail=False, throttle_classes=[Twice])
    def count(self, request: Any) -> Response:
        return Response({"count": self.get_queryset().count(), "from": request.META["REMOTE_ADDR"]})

    @action(detail=False)
    def plain(self, request: Any) -> HttpResponse:
        responses = {"ann": JsonResponse({"books": 2}), "ben": HttpResponse("Two."), "looker": FileResponse(BytesIO())}
        return responses.get(request.user.username, HttpResponse("Nobody counts.", status=409))

    def helper(self) -> None:
        """Not an action."""


@pytest.fixture
def _published(settings: Any) -> None:
    names = (
        "list",
        "retrieve",
        "create",
        "update",
        "partial_update",
        "destroy",
        "shred",
        "rename_author",
        "count",
        "plain",
    )
    viewset_tools(BookViewSet, actions={**{name: {} for name in names}, "count": {"name": "count_books"}})


def test_its_serializer_is_the_schema(shop: Shop) -> None:
    schema, _ = schemas("create_book", shop.ann)
    assert schema["required"] == ["title", "author", "price"]
    assert schema["properties"] == {
        "title": {"type": "string", "minLength": 1, "maxLength": 20, "description": "As on the cover"},
        "author": {"type": "integer"},
        "status": {"enum": ["draft", "out"]},
        "price": {"type": ["string", "number"], "pattern": "^[+-]?[0-9]+(\\.[0-9]+)?$", "minimum": 0},
        "published": {"type": ["string", "null"], "format": "date"},
        "pages": schema["properties"]["pages"],
        "notes": {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 2},
        "code": {"description": "Any"},
    }
    assert schemas("update_book", shop.ann)[0]["required"] == ["pk"]
    assert schemas("replace_book", shop.ann)[0]["required"] == ["pk", "title", "author", "price"]
    assert set(schemas("list_books", shop.ann)[0]["properties"]) == {"search", "ordering", "limit", "offset"}


def test_rows_are_made_changed_and_read_through_the_serializer(shop: Shop) -> None:
    root = user("root", "add_book", "change_book", "view_book", "delete_book")
    made = call("create_book", root, title="Emma", author=shop.anns.author_id, price="7.5", notes=["a"], code="x")
    assert (made["price"], made["written_by"]) == ("7.50", {"id": shop.anns.author_id, "name": "A. ann"})
    assert Book.objects.get(pk=made["id"]).owner == root
    assert call("update_book", root, pk=made["id"], price=8)["price"] == "8.00"
    replaced = call("replace_book", root, pk=made["id"], title="Eve", author=shop.anns.author_id, price=1)
    assert call("get_book", root, pk=made["id"]) == replaced
    assert call("delete_book", root, pk=made["id"]) == "Done."
    assert call("get_book", root, pk=made["id"]) == "No Book matches the given query."
    told = call("create_book", root, title="Emma", author=10**6, price="7.555", notes=["x", ""])
    assert "notes[1]" in told


def test_an_action_may_answer_with_a_response_of_djangos(shop: Shop) -> None:
    assert call("plain_book", shop.ann) == {"books": 2}
    assert call("plain_book", shop.ben) == "Two."
    assert "a file" in call("plain_book", shop.looker)
    assert call("plain_book", shop.nobody) == "Nobody counts."


def test_errors_keep_their_place(shop: Shop) -> None:
    _, *told = call("create_book", shop.ann, title="ann's", author=shop.anns.author_id, price="7.555").splitlines()
    assert "- price: Ensure that there are no more than 2 decimal places." in told


def test_lists_are_filtered_sorted_and_paged_as_the_viewset_does(shop: Shop) -> None:
    for number in range(3):
        Book.objects.create(title=f"Part {number}", author=shop.anns.author, price=1)
    page = call("list_books", shop.looker, search="part", ordering="-title", limit=50)
    assert [each["title"] for each in page["results"]] == ["Part 2", "Part 1"]
    assert page["count"] == 3
    page = call("list_books", shop.looker, search="part", offset=2)
    assert [each["title"] for each in page["results"]] == ["Part 2"]


def test_permissions_are_the_viewsets_and_those_of_its_actions(shop: Shop) -> None:
    assert call("update_book", shop.looker, pk=shop.anns.pk, pages=9).startswith("You do not have permission")
    assert call("shred_book", shop.ann, pk=shop.anns.pk).startswith("You do not have permission")
    assert Book.objects.get(pk=shop.anns.pk).pages == 1
    staff = user("staff", is_staff=True)
    assert call("shred_book", staff, pk=shop.anns.pk) == "Done."
    assert not Book.objects.filter(pk=shop.anns.pk).exists()


def test_an_action_of_its_own_takes_what_the_serializer_of_its_decorator_does(shop: Shop) -> None:
    assert set(schemas("shred_book", shop.ann)[0]["properties"]) == {"pk"}
    assert set(schemas("rename_author_book", shop.ann)[0]["properties"]) == {"pk", "name"}
    assert call("rename_author_book", shop.ann, pk=shop.anns.pk, name="A. new")["name"] == "A. new"
    assert call("rename_author_book", shop.ann, pk=shop.anns.pk, name="A. ben").endswith(
        "- name: author with this name already exists."
    )


def test_throttles_hold_for_the_caller(shop: Shop) -> None:
    assert call("count_books", shop.looker) == {"count": 2, "from": ""}
    call("count_books", shop.looker)
    assert call("count_books", shop.looker).startswith("Request was throttled.")
    assert call("count_books", shop.ann)["count"] == 2


class FileSerializer(serializers.Serializer):
    upload = serializers.FileField()


class FileViewSet(viewsets.GenericViewSet):
    serializer_class = FileSerializer

    def create(self, request: Any) -> Response:
        return Response()


class ForUsersViewSet(FileViewSet):
    def get_serializer_class(self) -> Any:
        return AuthorSerializer if self.request.user.is_staff else FileSerializer


@pytest.mark.parametrize(
    ("viewset", "name", "why"),
    [
        (FileViewSet, "create", r"\bupload\b.* FileField\b"),
        (FileViewSet, "list", "no such action"),
        (BookViewSet, "helper", "@action"),
        (ForUsersViewSet, "create", "without a request"),
    ],
)
def test_an_action_that_cannot_be_offered_is_refused(viewset: Any, name: str, why: str) -> None:
    with pytest.raises(InvalidDeclaration, match=rf"action '{name}' .*\b{viewset.__qualname__} .*{why}"):
        viewset_tools(viewset, actions=[name])


def test_times_of_a_site_without_time_zones_are_in_its_zone(shop: Shop, settings: Any) -> None:
    settings.USE_TZ, settings.TIME_ZONE = False, "America/New_York"

    class SaleSerializer(serializers.ModelSerializer):
        class Meta:
            model = Book
            fields = ("id", "sold_at")

    class SaleViewSet(viewsets.ModelViewSet):
        serializer_class = SaleSerializer
        queryset = Book.objects.order_by("title")
        permission_classes = (permissions.AllowAny,)

    named = {"list": "list_sales", "retrieve": "get_sale", "partial_update": "update_sale"}
    viewset_tools(SaleViewSet, actions={action: {"name": name} for action, name in named.items()})
    changed = call("update_sale", shop.ann, pk=shop.anns.pk, sold_at="2026-07-01T08:00:00")
    assert changed["sold_at"] == "2026-07-01T08:00:00"  # without an offset, as in the site's own API
    assert call("get_sale", shop.ann, pk=shop.anns.pk) == changed
    assert changed in call("list_sales", shop.ann)
    assert Book.objects.get(pk=shop.anns.pk).sold_at == datetime(2026, 7, 1, 8)
