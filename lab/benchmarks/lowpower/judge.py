"""The judgement of a finished suspend: sleep, mode and resume latency."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from lab.benchmarks.lowpower.evidence import KERNEL, ModeEvidence, of_mcu, of_power, verify
from lab.benchmarks.lowpower.kernellog import read_log
from lab.benchmarks.lowpower.power import PhasePowerProtocol
from lab.benchmarks.lowpower.preflight import PrintkSettings, Stats
from lab.benchmarks.lowpower.result import SuspendResult
from lab.benchmarks.lowpower.watch import SuspendWatch
from lab.errors import BoardTransientError, TestTransientError


@frozen
class Observed:
    """Observations of a suspend beside its console.

    Attributes:
        before, after: the kernel's counters.
        dmesg: the kernel's log since before the suspend, by lines.
        mcu_text: output of the MCU's UART meanwhile; None: not read.
        power: of the rails while asleep. energy: of the whole suspend and resume. None: not measured.
        no_power: why sampled rails have no mean power while asleep; empty: they have one, or are not sampled.
    """

    found: PrintkSettings
    before: Stats
    after: Stats
    dmesg: Sequence[str]
    mcu_text: str | None
    power: PhasePowerProtocol | None
    energy: PhasePowerProtocol | None = None
    no_power: str = ""


def judge(watch: SuspendWatch, observed: Observed) -> SuspendResult:
    """The result of a suspend that is done.

    Raises:
        BoardTransientError: it did not suspend, or reached another mode.
        TestTransientError: the kernel's log lacks the lines of the latency.
    """
    board, plan = watch.board, watch.plan
    log = read_log(observed.dmesg, board)
    successes = observed.after.success - observed.before.success
    if successes != 1 or not log.variant:
        raise BoardTransientError(
            f"the board did not suspend: /sys/power/suspend_stats counts {successes} more successes and "
            f"{observed.after.fail - observed.before.fail} more failures where 1 and 0 were expected, and the kernel's log "
            f"{'has' if log.variant else 'lacks'} 'PM: suspend entry' ({log.reason or 'it gives no reason'})",
            failure="did_not_suspend",
        )
    if log.latency_s is None or watch.answer is None:
        raise TestTransientError(
            f"the kernel's log lacks the first line of the resume ({' or '.join(board.low_power.resume_start)}) or "
            "'PM: suspend exit': lines were lost, or low_power.resume_start of the board type does not fit this kernel",
            failure="resume_lines_missing",
        )
    if not log.in_order:
        raise TestTransientError(
            f"the kernel's log has the suspend at {log.entry_s:.6f} s, the beginning of the resume at {log.start_s:.6f} s and its end at "
            f"{log.end_s:.6f} s: its clock does not go back, so characters were lost. Measure once more",
            failure="resume_lines_missing",
        )
    kernel = ModeEvidence(KERNEL, log.mode, "" if log.mode else "they fit several modes")
    total_w = observed.power.total.mean_w if observed.power is not None else None
    total_mw = None if total_w is None else total_w * 1e3
    evidence = (kernel, of_mcu(observed.mcu_text), of_power(total_mw, board, observed.no_power))
    return SuspendResult(
        plan=plan,
        log=log,
        edge=watch.edge,
        first_byte=watch.first_byte,
        answer=watch.answer,
        asleep_s=watch.asleep_s,
        found=observed.found,
        evidence=evidence,
        unverified=verify(plan.mode, evidence),
        mcu_text=observed.mcu_text or "",
        power=observed.power,
        energy=observed.energy,
        no_power=observed.no_power,
    )
