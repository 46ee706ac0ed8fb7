"""The tools of docs/how-to/asking.md, and the functions that they call."""

from tests.docs.pages import executed, snippet

executed(
    snippet("how-to/asking.md#asking-the-user"),
    reserve=lambda: 17,
    place=lambda number, quantity: f"Order {number}: {quantity}.",
)
