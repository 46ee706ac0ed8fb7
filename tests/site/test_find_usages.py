"""`find_usages` on the source of what is installed."""

import json

from mcpsite.tools.occurrences import occurrences

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


def test_a_distribution_is_a_package_too_and_the_site_is_none(example):
    by_distribution = example.result("find_usages", symbol="cancel_query", package="Django-Celery-Results")
    assert by_distribution["files_searched"] > 10
    for package in ("mcpsite", "tests", "no_such_package", "django.db", "..", "_thread"):
        said = example.refusal("find_usages", symbol="name", package=package)
        assert said.startswith(f"No package {package!r} with Python source"), said
    assert "not a Python identifier" in example.refusal("find_usages", symbol="a.b", package="django")


def test_a_cancelled_search_keeps_what_it_found(example):
    request_id = example.begin("find_usages", symbol="self", package="django", max_results=10)
    total = example.await_progress(request_id)["total"]
    ended = example.stop(request_id)
    assert ended["status"] == "cancelled"
    found = json.loads(ended["partial_result"]["content"][0]["text"])
    assert 0 < found["files_searched"] < total
    assert len(found["usages"]) <= 10
