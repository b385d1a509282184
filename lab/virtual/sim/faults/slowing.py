"""Boards in good health that have become slower. The number holds: it is for the judge to see that it moved."""

from __future__ import annotations

from typing import ClassVar, Final

from attrs import define, evolve, field, fields, validators

from lab.virtual.sim.faults.base import Fault, FaultOutcome
from lab.virtual.sim.timing import Durations

_NS: Final = "_ns"


def _stage(_instance: object, _attribute: object, value: str) -> None:
    known = [each.name.removesuffix(_NS) for each in fields(Durations)]
    if value not in known:
        raise ValueError(f"no stage {value!r}; there are: {', '.join(known)}")


@define(kw_only=True, eq=False)
class SlowStage(Fault):
    """A stage of the boot takes some per cent longer, here all from "Starting kernel" to the login prompt."""

    name: ClassVar[str] = "slow_stage"
    outcome: ClassVar[FaultOutcome] = FaultOutcome()
    stage: str = field(default="boot", validator=_stage)
    percent: float = field(default=3.0, validator=validators.gt(-100.0))

    def durations(self, drawn: Durations) -> Durations:
        """See `FaultHooks`."""
        key = f"{self.stage}{_NS}"
        return evolve(drawn, **{key: round(getattr(drawn, key) * (1 + self.percent / 100))})
