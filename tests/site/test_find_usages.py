"""`find_usages` on the source of installed packages."""

import json

import pytest

from mcp_app.tools import ToolError
from mcpsite.tools import packages
from mcpsite.tools.occurrences import check_identifier, occurrences

SOURCE = '''
import name
from a import b as name
def name(): name()
name = x.name
name: int
"name"  # name
f"name {name} {{name}} {x.name(1):{name}} {'name'}"
f"""name
{name}"""
f(name=1); other_name = names
'''


def test_names_are_found_and_neither_strings_nor_comments():
    found = [(place.line, place.column, place.kind) for place in occurrences(SOURCE, "name")]
    assert found == [
        (2, 7, "import"),
        (3, 19, "import"),
        (4, 4, "definition"),
        (4, 12, "call"),
        (5, 0, "assignment"),
        (5, 9, "reference"),
        (6, 0, "reference"),
        (8, 8, "reference"),
        (8, 26, "call"),
        (8, 35, "reference"),
        (10, 1, "reference"),
        (11, 2, "reference"),
    ]


def test_usages_in_an_installed_package(example):
    found = example.result("find_usages", symbol="async_to_sync", package="channels")
    assert {"file": "channels/consumer.py", "kind": "import"}.items() <= found["usages"][0].items()
    assert found["usages"][0]["text"].startswith("from asgiref.sync import ")
    assert {"call", "import"} <= {usage["kind"] for usage in found["usages"]}
    assert found["total"] == len(found["usages"])
    assert not found["truncated"]


def test_what_is_left_out_is_counted(example):
    found = example.result("find_usages", symbol="self", package="channels", max_results=5)
    assert (len(found["usages"]), found["truncated"]) == (5, True)
    assert found["total"] > 100


def test_a_distribution_is_a_package_too():
    names = [name for _, name in packages.source_files("Django-Celery-Results")]
    assert "django_celery_results/models.py" in names
    assert names == [name for _, name in packages.source_files("django_celery_results")]


@pytest.mark.parametrize(
    "package", ["mcpsite", "tests", "no_such_package", "django.db", "..", "_thread", "django-mcp-app"]
)
def test_only_installed_source_is_searched(package):
    with pytest.raises(ToolError, match=f"^No package '{package}' with Python source is installed"):
        packages.source_files(package)


@pytest.mark.parametrize("symbol", ["a.b", "class", "", "a b", "1"])
def test_only_an_identifier_is_searched_for(symbol):
    with pytest.raises(ToolError, match="is not a Python identifier"):
        check_identifier(symbol)


def test_a_cancelled_search_keeps_what_it_found(example):
    request_id = example.begin("find_usages", symbol="self", package="django", max_results=10)
    total = example.await_progress(request_id)["total"]
    ended = example.stop(request_id)
    assert ended["status"] == "cancelled"
    found = json.loads(ended["partial_result"]["content"][0]["text"])
    assert 0 < found["files_searched"] < total
    assert len(found["usages"]) <= 10
