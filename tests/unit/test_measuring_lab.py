"""The judge of what was measured on a real clock."""

from __future__ import annotations

import pytest
from support.measuring_lab import Number, assert_true

GOOD: Number = (2.000, 0.001, 2.0005)
LATE: Number = (2.030, 0.001, 2.0000)  # as a host that stood still has it
WRONG: Number = (2.060, 0.001, 2.0000)


@pytest.mark.parametrize("numbers", [[GOOD], [GOOD] * 2, [GOOD] * 19 + [LATE], [GOOD] * 38 + [LATE] * 2])
def test_numbers_are_true(numbers: list[Number]) -> None:
    assert_true(numbers)


@pytest.mark.parametrize(
    "numbers", [[], [LATE], [GOOD, LATE], [GOOD] * 18 + [LATE], [GOOD] * 19 + [WRONG], [GOOD] * 19 + [LATE] * 2]
)
def test_numbers_are_not(numbers: list[Number]) -> None:
    with pytest.raises(AssertionError):
        assert_true(numbers)


def test_where_a_few_cannot_tell_more_are_measured() -> None:
    assert_true([GOOD, LATE], more=lambda: [GOOD] * 9)
    with pytest.raises(AssertionError):
        assert_true([GOOD, LATE], more=lambda: [GOOD] * 8 + [LATE])
