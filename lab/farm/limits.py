"""farm.yaml's `limits`: what a host's programs leave each other. docs/farm/load.md."""

from __future__ import annotations

from typing import Final

from attrs import field, frozen, validators

from lab.host.locks import LONGEST_GAP_S

LATE_MS: Final = 5.0  # a hundredth of the stage that boards boot fastest through, and above what one busy core does


@frozen
class Limits:
    """Of a host; a scheduled run keeps to `max_boards` and `late_ms`, and waits.

    Attributes:
        power_on_gap: seconds between two power-ons at the same switch, at least. max_boards: that measure at once; 0: as many as there are.
        late_ms: no further board while the console server's stamps are later than this, in 1 of 100; 0: however late.
    """

    power_on_gap: float = field(default=0.0, validator=[validators.ge(0), validators.le(LONGEST_GAP_S)])
    max_boards: int = field(default=0, validator=validators.ge(0))
    late_ms: float = field(default=LATE_MS, validator=validators.ge(0))
