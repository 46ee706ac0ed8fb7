"""The stock of a shop."""

from stock.inventory import Inventory, OutOfStock

__all__ = ["Inventory", "OutOfStock"]
