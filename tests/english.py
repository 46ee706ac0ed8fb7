"""Counts turns of phrase that make this project's prose hard to read: `python -m tests.english [PATH ...] [--show N]`.

It reads docstrings and comments of Python files and the text of Markdown files. A mark is a hint, not a fault:
rewrite the sentence from its meaning instead of replacing the word.
"""

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
INSTALLED: Final = frozenset({".venv", "node_modules"})
MARKS: Final = re.compile(
    r"""
      \b[Ww]hat\ (?:is|are|was|were|has|had|have|it|they|comes?|came|runs?|ran|ends?|ended|each|nobody|must|can|may)\b
    | \b(?:[Ww]ho|whom)\ (?:asks?|waits?|calls?|listens?|may|can|left|leaves?)\b | \b[Ww]hoever\b
    | \b(?:[Nn]obody|[Ss]omebody|everybody|anybody)\b
    | \b(?:tells?|told|says?|said|hears?|heard|speaks?|spoken?)\b
    | \b(?:those\ that|those\ of|that\ of|such\ a\ one)\b
    | \b(?:is|are|was|were)\ to\ (?:be|have|look|end|stop|go|wait|run|see|say|hear|ask|tell|know)\b
    | ;\ (?:nothing|none|whether|what|why|where|None)\b
    | \blooks?\ (?:at|again|for)\b
    | \bRefuses\b | \bmeanwhile\b | \bof\ late\b
    | (?:^|(?<=[.]\ ))(?:Of|By)\ (?:an?|the|those|these|each|what|whom)\b | (?:^|(?<=[.]\ ))The\ same\b
    """,
    re.VERBOSE,
)


def python_texts(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for child in body if isinstance(body, list) else ():
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                yield str(child.value.value)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string.lstrip("# ")


def markdown_texts(source: str) -> Iterator[str]:
    for block in re.sub(r"^```.*?^```", "", source, flags=re.DOTALL | re.MULTILINE).split("\n"):
        if not block.startswith(("|", "    ", "#")):
            yield block


def texts(paths: Iterable[Path]) -> Iterator[str]:
    """Yield the prose of files, and of all files in folders."""
    for path in paths:
        for file in sorted(path.rglob("*.*")) if path.is_dir() else [path]:
            if INSTALLED.intersection(file.parts):
                continue
            if file.suffix == ".py" and "migrations" not in file.parts:
                yield from python_texts(file.read_text())
            elif file.suffix == ".md":
                yield from markdown_texts(file.read_text())


def long_sentences(path: Path, most: int) -> Iterator[str]:
    """Yield the sentences of a Markdown page that have more than `most` words. A sentence ends with its line."""
    for line in markdown_texts(path.read_text()):
        prose = re.sub(r"`[^`]*`", "code", re.sub(r"\]\([^)]*\)", "]", line))
        yield from (each for each in re.split(r"(?<=[.!?:])\s", prose) if len(each.split()) > most)


def marks_per_1000_words(*paths: Path) -> float:
    words = marks = 0
    for text in texts(paths):
        words += len(text.split())
        marks += len(MARKS.findall(text))
    return 1000 * marks / max(1, words)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.english", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, default=[ROOT / "mcp_app"])
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print the N texts with the most marks")
    options = parser.parse_args()
    for path in options.paths:
        sys.stdout.write(f"{marks_per_1000_words(path):6.1f}  {path}\n")
    worst = sorted(texts(options.paths), key=lambda text: -len(MARKS.findall(text)))
    sys.stdout.writelines(f"\n{text.strip()}\n" for text in worst[: options.show])


if __name__ == "__main__":
    main()
