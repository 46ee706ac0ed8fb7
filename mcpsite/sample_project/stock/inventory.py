"""Counts of articles: they arrive, and they are taken."""

import json
from collections import Counter


class OutOfStock(Exception):
    """There are fewer of an article than were asked for."""


class Inventory:
    """How many there are of each article."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def count(self, article: str) -> int:
        return self._counts[article]

    def arrive(self, article: str, number: int) -> None:
        self._counts[article] += number

    def take(self, article: str, number: int) -> None:
        """Raise OutOfStock, and take none, unless there are enough."""
        if self.count(article) < number:
            raise OutOfStock(f"{number} of {article} were asked for, {self.count(article)} are there")
        self._counts[article] -= number
