"""Counts articles that arrive and are taken."""

import json
from collections import Counter


class OutOfStock(Exception):
    """There is not enough of an article."""


class Inventory:
    """The number of each article."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def count(self, article: str) -> int:
        return self._counts[article]

    def arrive(self, article: str, number: int) -> None:
        self._counts[article] += number

    def take(self, article: str, number: int) -> None:
        """Take articles. Raise `OutOfStock`, and take none, if there are not enough."""
        if self.count(article) < number:
            raise OutOfStock(f"{number} of {article} were asked for, {self.count(article)} are there")
        self._counts[article] -= number
