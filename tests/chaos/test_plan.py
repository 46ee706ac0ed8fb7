"""The seed determines the errands and faults of a run."""

from itertools import islice

import pytest

from tests.chaos import plan


def test_the_same_seed_gives_the_same_errands_and_faults() -> None:
    assert list(islice(plan.errands(5, "c1"), 50)) == list(islice(plan.errands(5, "c1"), 50))
    assert list(islice(plan.faults(5, "redis"), 50)) == list(islice(plan.faults(5, "redis"), 50))


def test_seeds_and_clients_differ() -> None:
    first = list(islice(plan.errands(5, "c1"), 5))
    assert first != list(islice(plan.errands(6, "c1"), 5))
    assert [errand.seconds for errand in first] != [errand.seconds for errand in islice(plan.errands(5, "c2"), 5)]


@pytest.mark.parametrize("stack", plan.STACKS)
def test_every_kind_of_errand_and_fault_comes_up(stack: str) -> None:
    assert {errand.kind for errand in islice(plan.errands(1, "c0"), 500)} == plan.KINDS.keys()
    assert {errand.tool for errand in islice(plan.errands(1, "c0"), 500)} == plan.TOOLS.keys()
    assert {fault.kind for fault in islice(plan.faults(1, stack), 1000)} == plan.FAULTS_OF[stack].keys()
