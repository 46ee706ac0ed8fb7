"""What tests of every room use."""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def configure(settings: Any) -> Callable[..., None]:
    """Change some of `MCP` for one test."""

    def change(**values: Any) -> None:
        settings.MCP = {**settings.MCP, **values}

    return change
