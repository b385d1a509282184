"""Evidence of the reached mode: kernel, MCU and rails' power."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from lab.benchmarks.lowpower.modes import MCU_ONLY
from lab.boards import BoardType
from lab.errors import BoardTransientError

KERNEL, MCU_UART, POWER = "the kernel's lines", "the MCU's UART", "the power of the rails"
_MCU_SUSPENDED = "Suspend request to MCU-only mode received"


@frozen
class ModeEvidence:
    """One source's evidence of the mode.

    Attributes:
        source: its name. says: the mode; empty: none. why_not: reason for none.
    """

    source: str
    says: str
    why_not: str = ""


def of_mcu(text: str | None) -> ModeEvidence:
    """The evidence of the MCU's UART; None: not read.

    Its silence proves nothing, for its firmware may be another.
    """
    if text is None:
        return ModeEvidence(MCU_UART, "", "the env has no SideConsoleDriver for it")
    suspended = _MCU_SUSPENDED in text
    return ModeEvidence(MCU_UART, MCU_ONLY if suspended else "", "" if suspended else "it said nothing of MCU-only")


def of_power(total_mw: float | None, board: BoardType, why_none: str = "") -> ModeEvidence:
    """Judge the power of all rails.

    None: it is not known, for this reason; empty: no rails are measured.
    """
    if total_mw is None:
        return ModeEvidence(POWER, "", why_none or "no rails are measured")
    fit = [mode for mode, (low, high) in board.low_power.total_mw.items() if low <= total_mw <= high]
    why_not = "" if len(fit) == 1 else f"{total_mw:.1f} mW fits {', '.join(fit) or 'no mode'}"
    return ModeEvidence(POWER, fit[0] if len(fit) == 1 else "", why_not)


def verify(mode: str, evidence: Sequence[ModeEvidence]) -> str:
    """Judge all evidence; return the missing parts, or "" if verified.

    Raises:
        BoardTransientError: a source names another mode.
    """
    wrong = [each for each in evidence if each.says not in {"", mode}]
    if wrong:
        text = "; ".join(f"{each.source}: {each.says}" for each in wrong)
        raise BoardTransientError(
            f"{mode} was asked for and not reached ({text}): its selection depends on the run's release "
            "(lab/boards: releases.*.low_power), and the device manager's firmware has the last word",
            failure="wrong_sleep_mode",
        )
    if any(each.says == mode for each in evidence):
        return ""
    return f"nothing says that {mode} was reached: " + "; ".join(f"{e.source}: {e.why_not}" for e in evidence)
