"""G7: this app marks no text as safe that it did not make, so all other texts are escaped."""

import re
from pathlib import Path

import pytest

import mcp_app

ROOT = Path(mcp_app.__file__).parent
FORBIDDEN = {
    "*.py": r"\bmark_safe\b|\bSafeString\(|\bSafeText\b|\bhtml_safe\b|\b__html__\b|format_html\(\s*[^\"'\s]",
    "*.html": r"\|\s*safe(seq)?\b|\bautoescape\s+off\b|\bfilter\s+safe\b|\{%\s*verbatim",
    "*.js": r"\binnerHTML\b|\bouterHTML\b|\binsertAdjacentHTML\b|\bdocument\.write\b|\beval\(|\bnew Function\b",
}


@pytest.mark.fault("G7")
@pytest.mark.parametrize("kind", FORBIDDEN)
def test_G7_no_text_is_called_safe(kind):
    files = sorted(ROOT.rglob(kind))
    assert files
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(FORBIDDEN[kind], line)
    ]
    assert found == []
