"""What the terminal says of an attempt that failed."""

from __future__ import annotations

import pytest

from lab.benchmarks.cycles import CycleAttempt
from lab.errors import BoardStableError, BoardTransientError
from lab.host.clock import MonotonicRaw
from lab.run.progress import Progress


@pytest.mark.parametrize(
    ("error", "is_last", "then"),
    [
        (BoardTransientError("no byte", failure="silent"), False, "power-cycle and retry"),
        (BoardTransientError("no byte", failure="silent"), True, "stop"),
        (BoardStableError("it burns", failure="smoke"), False, "stop"),
    ],
)
def test_a_retry_is_announced_only_where_there_is_one(error: BoardTransientError, is_last: bool, then: str) -> None:
    said: list[str] = []
    attempt = CycleAttempt(1, 1, None, error, again=not is_last)
    Progress(said.append, MonotonicRaw(), total=1).attempt_failed("sd", 1, attempt)
    assert said[0].endswith(f"-> {then}")
