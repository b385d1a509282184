"""The judgement of a finished suspend: sleep, mode and resume latency.

No number rests on the kernel's lines alone: its counters, the host's clock and a second reading of the lines confirm
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from attrs import frozen

from lab.benchmarks.boot import MomentLike
from lab.benchmarks.lowpower.kernellog import END, SuspendLog, errors_of, kernel_lines, read_log
from lab.benchmarks.lowpower.modes import SuspendPlan, mode_of
from lab.benchmarks.lowpower.power import PhasePowerProtocol, off
from lab.benchmarks.lowpower.preflight import MEMORY, PrintkSettings, Stats
from lab.benchmarks.lowpower.result import (
    CLOCK_PPM,
    KERNEL,
    ModeEvidence,
    SuspendResult,
    of_firmware,
    of_mcu,
    of_power,
    verify,
)
from lab.benchmarks.lowpower.watch import EARLY_S, SuspendWatch
from lab.boards import BoardType
from lab.errors import BoardTransientError, TestTransientError

# Bits of the kernel's taint (Linux Documentation/admin-guide/tainted-kernels.rst) -> failure class.
_TAINTS: Final = {1 << 7: "kernel_oops", 1 << 14: "kernel_lockup"}


@frozen
class Observed:
    """Observations of a suspend beside its console.

    Attributes:
        before, after: the kernel's counters; None: the board does not say them.
        dmesg: the kernel's log since before the suspend, by lines.
        mcu_text: output of the MCU's UART meanwhile; None: not read.
        power: of the rails while asleep.
        energy: of the whole suspend and resume. None: not measured.
        no_power: why sampled rails have no mean power while asleep; empty: they have one, or are not sampled.
        apart_s: time between the two readings of the counters on the host's clock.
        again: the lines of the resume's begin and end and the errors, read a second time; None: they were not.
    """

    found: PrintkSettings
    before: Stats | None
    after: Stats | None
    dmesg: Sequence[str]
    mcu_text: str | None
    power: PhasePowerProtocol | None
    energy: PhasePowerProtocol | None = None
    no_power: str = ""
    again: Sequence[str] | None = None
    apart_s: float | None = None


def judge(watch: SuspendWatch, observed: Observed) -> SuspendResult:
    """The result of a suspend that is done.

    Raises:
        BoardTransientError: it did not suspend, reached another mode, had an oops, or host and kernel contradict each
            other.
        TestTransientError: the kernel's log lacks the lines of the latency, or lost characters.
    """
    board, plan = watch.board, watch.plan
    log = read_log(observed.dmesg, board)
    _check_memory(observed)
    _check_counters(log, observed)
    firmware = of_firmware(watch.said, plan, board)
    kernel = _of_kernel(log, firmware, plan, board)
    verify(plan.mode, [kernel])  # first, since another mode has other lines
    if log.latency_s is None or watch.answer is None:
        raise TestTransientError(
            f"the kernel's log lacks the first line of the resume ({' or '.join(board.low_power.resume_start)}) or "
            "'PM: suspend exit': lines were lost, or low_power.resume_start of the board type does not fit "
            "this kernel",
            failure="resume_lines_missing",
        )
    if not log.in_order:
        raise TestTransientError(
            f"the kernel's log has the suspend at {log.entry_s:.6f} s, the beginning of the resume at "
            f"{log.start_s:.6f} s and its end at {log.end_s:.6f} s: its clock does not go back, so characters were "
            "lost. Measure once more",
            failure="resume_lines_missing",
        )
    lost = _check_again(log, observed.again)
    for contradiction in _contradictions(watch, log, watch.answer, observed.after):
        raise BoardTransientError(
            f"{contradiction}. The kernel's lines are not those of this suspend, or something else woke the board; "
            "look at the attempt's log",
            failure="resume_contradicted",
        )
    errors = _errors(log.errors or errors_of(kernel_lines(observed.again or ())), observed)
    total_w = observed.power.total.mean_w if observed.power is not None else None
    total_mw = None if total_w is None else total_w * 1e3
    evidence = (
        kernel,
        *([firmware] if firmware else []),
        of_mcu(observed.mcu_text),
        of_power(total_mw, board, observed.no_power),
    )
    unverified = verify(plan.mode, evidence)
    if observed.power is not None and mode_of(board, plan).rails_on:
        off(observed.power.rails, board, plan.mode)
    if observed.after is not None and observed.after.last_hw_sleep_us == 0:
        unverified = "suspend_stats has a last_hw_sleep of 0: the hardware did not sleep"
    return SuspendResult(
        plan=plan,
        log=log,
        edge=watch.edge,
        is_named=log.woken_by in board.low_power.wakes[plan.wake].reported,
        first_byte=watch.first_byte,
        answer=watch.answer,
        asleep_s=watch.asleep_s,
        found=observed.found,
        evidence=evidence,
        unverified=unverified,
        mcu_text=observed.mcu_text or "",
        power=observed.power,
        energy=observed.energy,
        no_power=observed.no_power,
        unchecked="; ".join(_missing_confirmations(log, observed)),
        errors=errors,
        lost_lines=lost,
        rtc_off_s=_rtc_off_s(observed),
        temperatures_c={
            when: dict(counters.temperatures_c)
            for when, counters in (("before", observed.before), ("after", observed.after))
            if counters is not None and counters.temperatures_c
        },
        throttled=observed.after.throttled if observed.after is not None else (),
    )


def _check_memory(observed: Observed) -> None:
    """Require the same boot, and the same bytes in its memory.

    Raises:
        BoardTransientError: it is another boot, or its memory changed.
    """
    before, after = observed.before, observed.after
    if before is None or after is None:
        return
    if before.boot_id and after.boot_id and before.boot_id != after.boot_id:
        raise BoardTransientError(
            f"the board should have resumed, and booted: its boot_id was {before.boot_id} and is {after.boot_id}",
            failure="woke_by_boot",
        )
    if before.memory and before.memory != after.memory:
        raise BoardTransientError(
            f"the board's memory changed while it slept: of the random bytes in {MEMORY} the checksum was "
            f"{before.memory} and is {after.memory or 'gone'}. Nothing of this session can be trusted; look at the "
            "memory's supply and its errata of retention",
            failure="memory_lost",
        )


def _rtc_off_s(observed: Observed) -> float | None:
    """The RTC's time minus the host's, between the two readings."""
    before, after = observed.before, observed.after
    if before is None or after is None or before.rtc_s is None or after.rtc_s is None or observed.apart_s is None:
        return None
    return after.rtc_s - before.rtc_s - observed.apart_s


def _check_counters(log: SuspendLog, observed: Observed) -> None:
    """Require a suspend in the log, and one more counted success.

    Raises:
        BoardTransientError: it did not suspend.
    """
    counted, wrong = "", not log.variant
    if observed.before is not None and observed.after is not None:
        successes = observed.after.success - observed.before.success
        failures = observed.after.fail - observed.before.fail
        wrong = wrong or (successes, failures) != (1, 0)
        counted = (
            f"/sys/power/suspend_stats counts {successes} more successes and {failures} more failures where 1 "
            "and 0 were expected, and "
        )
    if wrong:
        last = observed.after.last_failed if observed.after else ""
        raise BoardTransientError(
            f"the board did not suspend: {counted}the kernel's log {'has' if log.variant else 'lacks'} 'PM: suspend "
            f"entry' ({log.reason or last or 'it gives no reason'})",
            failure="did_not_suspend",
        )


def _check_again(log: SuspendLog, again: Sequence[str] | None) -> int:
    """Require the same lines in their second reading; return how many before them were lost in the first.

    Raises:
        TestTransientError: they are others.
    """
    if again is None or log.start_s is None or log.end_s is None:
        return 0
    read = {(line.t_s, line.text): line.number for line in kernel_lines(again)}
    read_first = [(log.start_s, log.start_text), *log.sources, (log.end_s, END)]
    missing = [stamped_text for stamped_text in read_first if stamped_text not in read]
    if missing:
        t_s, text = missing[0]
        raise TestTransientError(
            f"the kernel's log had {text!r} at {t_s:.6f} s, and not so in a second reading: characters were lost on "
            "the console. Look at its cable and ground wire",
            failure="resume_lines_missing",
        )
    return max(0, read[log.end_s, END] - log.end_number)


def _contradictions(watch: SuspendWatch, log: SuspendLog, answer: MomentLike, after: Stats | None) -> Iterator[str]:
    """Contradictions of the kernel's interval: in its own log, and to the host's clock and the counters."""
    if (log.entries, log.exits, log.starts) != (1, 1, 1):
        yield (
            f"the kernel's log has {log.entries} suspends, {log.exits} ends of one and {log.starts} lines "
            f"{log.start_text!r}, where one of each was expected"
        )
    wake = watch.plan.wake
    reported = watch.board.low_power.wakes[wake].reported
    if log.woken_by and reported and log.woken_by not in reported:
        yield (
            f"{log.woken_by} woke the board by the firmware's word ({log.wake_source}), where {wake} was to "
            f"({', '.join(reported)})"
        )
    if watch.edge is not None and log.woken_by not in reported and watch.alarm_ns < answer.t_ns:
        yield (
            "the RTC's alarm may have woken the board before it answered, and the firmware does not say that "
            f"{wake} did"
        )
    latency_ns = (log.latency_s or 0.0) * 1e9
    unsure_ns = answer.uncertainty_ns + latency_ns * CLOCK_PPM / 1e6
    edge = watch.edge
    earliest_ns = watch.sent_ns + round((watch.alarm_s - EARLY_S) * 1e9) if edge is None else edge.requested_ns
    since = "the earliest time of its alarm" if edge is None else f"{edge.source} woke the board"
    host_ns = answer.t_ns - max(earliest_ns, watch.sent_ns)
    if latency_ns > host_ns + unsure_ns:
        yield (
            f"the kernel resumed for {latency_ns / 1e6:.3f} ms by its own clock, and the host has {host_ns / 1e6:.3f} "
            f"ms from {since} to the shell's answer"
        )
    limit_s = watch.board.low_power.resume_s
    behind_ns = answer.t_ns - watch.due_ns - latency_ns
    if behind_ns - unsure_ns > limit_s * 1e9:
        yield (
            f"the kernel resumed in {latency_ns / 1e6:.3f} ms by its own clock, and the host waited "
            f"{behind_ns / 1e9:.3f} s more for the shell, where low_power.resume_s allows {limit_s:g} s"
        )
    slept_ns = after.last_hw_sleep_us * 1_000 if after is not None and after.last_hw_sleep_us else 0
    if slept_ns * (1 - CLOCK_PPM / 1e6) > answer.t_ns + answer.uncertainty_ns - watch.sent_ns:
        yield (
            f"suspend_stats has a last_hw_sleep of {slept_ns / 1e9:.3f} s, and the host has "
            f"{(answer.t_ns - watch.sent_ns) / 1e9:.3f} s from the command to the shell's answer"
        )


def _errors(lines: tuple[str, ...], observed: Observed) -> tuple[str, ...]:
    """Errors of this suspend: these lines, and those by the kernel's counters and taint.

    Raises:
        BoardTransientError: an oops or a lockup.
    """
    before, after = observed.before, observed.after
    if before is None or after is None:
        return lines
    new = 0 if before.tainted is None or after.tainted is None else after.tainted & ~before.tainted
    failure = next((failure for bit, failure in _TAINTS.items() if new & bit), "")
    if failure:
        raise BoardTransientError(
            f"the kernel had a fault while it suspended or resumed (/proc/sys/kernel/tainted has {after.tainted}, and "
            f"had {before.tainted}): {'; '.join(lines[:1]) or 'its log has no error'}. The whole trace is in the "
            "attempt's log",
            failure=failure,
        )
    counted = after.failed_resume - before.failed_resume
    return (
        *lines,
        *([f"suspend_stats: {counted} devices did not resume ({after.last_failed})"] if counted else []),
        *([f"/proc/sys/kernel/tainted has {after.tainted}, and had {before.tainted}"] if new else []),
    )


def _missing_confirmations(log: SuspendLog, observed: Observed) -> Iterator[str]:
    """Confirmations that the board did not give."""
    if observed.before is None or observed.after is None:
        yield "the board does not say its suspend_stats"
    elif observed.before.tainted is None or observed.after.tainted is None:
        yield "the board does not say its kernel's taint"
    if not log.by_level:
        yield "dmesg -r gives no priorities, so a line may be a program's"
    if observed.again is None:
        yield "the kernel's lines were read once"


def _of_kernel(log: SuspendLog, firmware: ModeEvidence | None, plan: SuspendPlan, board: BoardType) -> ModeEvidence:
    """The evidence of the kernel's lines.

    Without the firmware's number they do not tell modes of one state apart. Another state than the mode's is another
    mode.
    """
    variants = {mode.variant for mode in board.low_power.modes.values()}  # a damaged name is none of them
    if log.variant in variants - {mode_of(board, plan).variant}:
        return ModeEvidence(KERNEL, log.mode if log.mode not in {"", plan.mode} else log.variant)
    named_mode = firmware.says if firmware is not None else ""
    if named_mode and not log.mode_number and board.low_power.modes[named_mode].variant == log.variant:
        return ModeEvidence(KERNEL, "", f"they fit {named_mode}, too")
    why_not = (
        f"the firmware names mode {log.mode_number}, which is none" if log.mode_number else "they fit several modes"
    )
    return ModeEvidence(KERNEL, log.mode, "" if log.mode else why_not)
