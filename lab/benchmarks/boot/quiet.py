"""Whether a boot's kernel was quiet: seen in what it printed, since a quiet one does not print its command line."""

from __future__ import annotations

from typing import Final

from attrs import evolve, frozen

from lab.benchmarks.boot.flows import BootFlow
from lab.benchmarks.boot.kernellog import BootKernelLog
from lab.boards import quiet_flow

FEW_LINES: Final = 40  # a quiet kernel prints its errors
MANY_LINES: Final = 150  # a talking one prints some 370 (public logs of falcon boots of an AM62x)
SPOKEN: Final = frozenset({"first_printk", "init"})  # moments that only a talking kernel prints


@frozen
class Manner:
    """A flow, named with the manner in which its kernel spoke.

    Attributes:
        is_sure: whether the other manner with lost characters would not look the same.
    """

    flow: BootFlow
    is_sure: bool


def manner(flow: BootFlow, log: BootKernelLog, *, lost: bool) -> Manner:
    """The flow with its manner; of a board type that knows no line of a talking kernel it stays as it is.

    Args:
        log: of the whole boot. lost: whether bytes are known to be missing.
    """
    has_sign = any(pattern.name in SPOKEN for pattern in flow.patterns)
    if not has_sign or log.talks or any(moment.name in SPOKEN for moment in flow.order):
        return Manner(flow, is_sure=True)
    if log.stamped > FEW_LINES:
        return Manner(flow, is_sure=log.stamped > MANY_LINES)
    return Manner(evolve(flow, name=quiet_flow(flow.name)), is_sure=not lost)
