import pytest

from stock import Inventory, OutOfStock


@pytest.fixture
def inventory():
    inventory = Inventory()
    inventory.arrive("lamp", 3)
    return inventory


def test_what_arrived_is_counted(inventory):
    inventory.arrive("lamp", 2)
    assert inventory.count("lamp") == 5


def test_what_was_taken_is_gone(inventory):
    inventory.take("lamp", 2)
    assert inventory.count("lamp") == 1


def test_more_than_there_is_cannot_be_taken(inventory):
    with pytest.raises(OutOfStock):
        inventory.take("lamp", 4)
    assert inventory.count("lamp") == 3
