"""The result of a suspend."""

from __future__ import annotations

from attrs import frozen

from lab.benchmarks.boot import MomentLike
from lab.benchmarks.lowpower.evidence import ModeEvidence
from lab.benchmarks.lowpower.kernellog import SuspendLog
from lab.benchmarks.lowpower.modes import SuspendPlan
from lab.benchmarks.lowpower.power import PhasePowerProtocol
from lab.benchmarks.lowpower.preflight import PrintkSettings
from lab.benchmarks.lowpower.watch import WakeEdge
from lab.metrics import Flag, uncertainty

CLOCK_PPM = 100.0  # largest error of a board's crystal
STAMP_NS = 1_000  # printk's stamps are cut to microseconds: a difference of two is wrong by less than one


@frozen
class SuspendResult:
    """A suspend and resume that went well.

    Attributes:
        log: the kernel's lines.
        edge: the host's edge that woke the board; None: the RTC did.
        first_byte, answer: of the console after the wake-up.
        asleep_s: silence of the console, on the host's clock.
        found: the kernel's consoles and log level, as they were and are again.
        evidence: for the mode. unverified: missing evidence; empty: verified.
        mcu_text: output of the MCU's UART meanwhile.
        power: of the rails while asleep. energy: from the command to the answer. None: not measured.
        no_power: why sampled rails have no mean power while asleep; empty: they have one, or are not sampled.
        unchecked: missing confirmations of the kernel's lines; empty: none.
        errors: of the kernel while it suspended and resumed.
        lost_lines: of the kernel's log, on the console.
    """

    plan: SuspendPlan
    log: SuspendLog
    edge: WakeEdge | None
    first_byte: MomentLike | None
    answer: MomentLike
    asleep_s: float
    found: PrintkSettings
    evidence: tuple[ModeEvidence, ...]
    unverified: str
    mcu_text: str
    power: PhasePowerProtocol | None
    energy: PhasePowerProtocol | None = None
    no_power: str = ""
    unchecked: str = ""
    errors: tuple[str, ...] = ()
    lost_lines: int = 0

    @property
    def kernel_ms(self) -> tuple[float, float]:
        """The vendor's resume latency and its ±, in milliseconds."""
        latency_s = self.log.latency_s or 0.0
        return latency_s * 1e3, STAMP_NS / 1e6 + latency_s * CLOCK_PPM / 1e3

    @property
    def flags(self) -> frozenset[Flag]:
        """Doubts of all its numbers."""
        found = {
            Flag.MODE_UNVERIFIED: self.unverified,
            Flag.NOT_CROSS_CHECKED: self.unchecked,
            Flag.KERNEL_ERRORS: self.errors,
            Flag.CONSOLE_OVERRUN: self.lost_lines,
        }
        return frozenset(flag for flag, doubt in found.items() if doubt)

    @property
    def outside_kernel_ms(self) -> tuple[float, float] | None:
        """Time from the edge to the answer without the kernel's, and its ±: the firmware's and the shell's (ms)."""
        if self.edge is None:
            return None
        (whole, unsure), (kernel, _) = self.since_edge_ms(self.answer), self.kernel_ms
        return whole - kernel, unsure

    def since_edge_ms(self, moment: MomentLike) -> tuple[float, float]:
        """Time from the wake-up edge to a moment, and its ± (ms).

        A board that printed before the acknowledgement had been woken by then; no output came before the request, and moving an
        earlier stamp adds to its ±. On a busy host the edge may also have come later than its stamp, which
        adds to the byte's ±.
        """
        if self.edge is None:
            return 0.0, 0.0
        asked_ns = self.edge.requested_ns
        edge_ns = min(self.edge.t_ns, max(asked_ns, (self.first_byte or self.answer).t_ns))
        heard_ns = max(asked_ns, moment.t_ns)
        moved_ns = heard_ns - moment.t_ns
        bound_ns = uncertainty.of_interval(edge_ns - asked_ns, moment.uncertainty_ns + moved_ns + self.edge.late_ns)
        return (heard_ns - edge_ns) / 1e6, bound_ns / 1e6
