"""What a shop has in stock."""

from stock.inventory import Inventory, OutOfStock

__all__ = ["Inventory", "OutOfStock"]
