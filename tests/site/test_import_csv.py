"""`import_csv`: the table has the rows that the chosen mode promises, however the import ends."""

from pathlib import Path
from typing import Any

import pytest

from tests.execution import driver
from tests.site.calls import ExampleSite

HEADER = "email,name,company\n"
LINES = 200_000
BATCH = 50


@pytest.fixture
def uploads(example: ExampleSite) -> Path:
    """The uploads folder, with no contact in the table."""
    example.site.ask(driver.sql, "default", "DELETE FROM mcpsite_contact")
    return example.site.data / "uploads"


@pytest.fixture(scope="module")
def long_file(example: ExampleSite) -> str:
    """The name of a file whose import takes longer than any test waits before it cancels."""
    path = example.site.data / "uploads" / "long.csv"
    path.write_text(HEADER + "".join(f"c{number}@example.org,New name,\n" for number in range(LINES)))
    return path.name


def contacts(example: ExampleSite, columns: str = "email, name, company") -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = example.site.ask(
        driver.sql, "default", f"SELECT {columns} FROM mcpsite_contact ORDER BY email"
    )
    return rows


def test_known_addresses_are_updated_and_the_same_import_again_changes_nothing(
    example: ExampleSite, uploads: Path
) -> None:
    text = HEADER + 'Ada@Example.org,"Ada\nLovelace",\n\nbob@example.org,Bob,Acme\nada@example.org,Ada L.,Engines\n'
    first = example.result("import_csv", text=text)
    assert (first["total"], first["stored"], first["created"], first["updated"]) == (3, 3, 2, 1)
    expected = [("ada@example.org", "Ada L.", "Engines"), ("bob@example.org", "Bob", "Acme")]
    assert contacts(example) == expected

    again = example.result("import_csv", text=text, mode="batches", batch_size=1)
    assert (again["stored"], again["created"], again["updated"]) == (3, 0, 3)
    assert contacts(example) == expected


def test_a_column_that_the_csv_has_not_keeps_its_values(example: ExampleSite, uploads: Path) -> None:
    example.result("import_csv", text=HEADER + "ada@example.org,Ada,Engines\n")
    (uploads / "names.csv").write_bytes("\ufeffname,EMAIL\r\nAda L.,ada@example.org\r\n".encode())
    assert example.result("import_csv", file="names.csv")["updated"] == 1
    assert contacts(example) == [("ada@example.org", "Ada L.", "Engines")]


WRONG = HEADER + 'a@example.org,"A\nB",\nnobody,Nobody,\nc@example.org,,\nd@example.org,D\ne@example.org,E,\n'


def test_one_transaction_with_wrong_lines_stores_nothing_and_names_them(example: ExampleSite, uploads: Path) -> None:
    said = example.refusal("import_csv", text=WRONG).splitlines()
    assert said[0] == "Nothing was imported: 3 of 5 lines are wrong."
    assert [line.split(": ")[:2] for line in said[1:]] == [
        ["Line 4", "email"],
        ["Line 5", "name"],
        ["Line 6", "It has 2 cells, the header 3."],
    ]
    assert contacts(example) == []


def test_batches_store_what_is_right_and_name_the_rest(example: ExampleSite, uploads: Path) -> None:
    report = example.result("import_csv", text=WRONG, mode="batches", batch_size=2)
    assert (report["total"], report["stored"], report["rejected"]) == (5, 2, 3)
    assert [problem["line"] for problem in report["problems"]] == [4, 5, 6]
    assert contacts(example, "email") == [("a@example.org",), ("e@example.org",)]


def test_the_named_problems_are_bounded(example: ExampleSite, uploads: Path) -> None:
    said = example.refusal("import_csv", text=HEADER + "x,X,\n" * 30).splitlines()
    assert (len(said), said[-1]) == (22, "And 10 more.")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("name,company\nAda,Engines\n", "There is no column 'email'."),
        ("email,name,shoe\n", "The column 'shoe' is unknown or there twice."),
        (HEADER + 'a@example.org,A,\nb@example.org,"B"b,\n', "Line 3 is not CSV: "),
        ("", "Give either the CSV as text, or the name of a file"),
    ],
)
def test_what_is_no_csv_of_contacts_is_refused_before_anything_is_stored(
    example: ExampleSite, uploads: Path, text: str, why: str
) -> None:
    assert example.refusal("import_csv", text=text, mode="batches", batch_size=1).startswith(why)
    assert contacts(example) == []


def test_a_file_that_is_no_utf_8_is_refused_before_anything_is_stored(example: ExampleSite, uploads: Path) -> None:
    (uploads / "latin.csv").write_bytes(HEADER.encode() + b"a@example.org,A,\n" * 20_000 + b"b@example.org,B\xe9,\n")
    said = example.refusal("import_csv", file="latin.csv", mode="batches")
    assert said.startswith("The file is not UTF-8 text")
    assert said.endswith("Nothing was imported.")
    assert contacts(example) == []


@pytest.mark.parametrize(
    "name",
    ["../secret-key", "/etc/passwd", "..", ".", "link.csv", "folder", "folder/inside.csv", "missing.csv", "a\0b"],
)
def test_nothing_but_a_file_of_the_uploads_folder_is_read(example: ExampleSite, uploads: Path, name: str) -> None:
    (uploads / "folder").mkdir(exist_ok=True)
    (uploads / "folder" / "inside.csv").write_text(HEADER)
    if not (link := uploads / "link.csv").is_symlink():
        link.symlink_to(example.site.data / "secret-key")
    assert example.refusal("import_csv", file=name).startswith("There is no such file in the uploads folder")


def test_a_cancelled_transaction_leaves_the_table_as_it_was(
    example: ExampleSite, uploads: Path, long_file: str
) -> None:
    example.result("import_csv", text=HEADER + "c0@example.org,Old name,Engines\n")
    request_id = example.begin("import_csv", file=long_file, batch_size=BATCH)
    assert example.await_progress(request_id)["progress"] >= BATCH

    ended = example.stop(request_id)
    assert (ended["status"], ended["stage"]) == ("cancelled", "cooperative")
    report = ended["partial_result"]["structuredContent"]
    assert (report["total"], report["stored"]) == (LINES, 0)
    assert contacts(example) == [("c0@example.org", "Old name", "Engines")]


def test_cancelled_batches_leave_whole_batches_and_the_report_counts_them(
    example: ExampleSite, uploads: Path, long_file: str
) -> None:
    request_id = example.begin("import_csv", file=long_file, mode="batches", batch_size=BATCH)
    example.await_progress(request_id)

    ended = example.stop(request_id)
    assert (ended["status"], ended["stage"]) == ("cancelled", "cooperative")
    report = ended["partial_result"]["structuredContent"]
    [(stored,)] = example.site.ask(driver.sql, "default", "SELECT count(*) FROM mcpsite_contact")
    assert report["stored"] == report["created"] == stored
    assert 0 < stored < LINES
    assert stored % BATCH == 0
