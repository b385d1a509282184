"""One suspend on the console: asleep, woken, back, or which way it failed; then judged."""

from __future__ import annotations

from itertools import accumulate
from types import SimpleNamespace
from typing import Any, cast

import pytest
from attrs import evolve, frozen

from lab import boards
from lab.benchmarks.lowpower.judge import Observed, judge
from lab.benchmarks.lowpower.modes import SuspendPlan
from lab.benchmarks.lowpower.power import SETTLE_NS, asleep_ns, why_no_mean
from lab.benchmarks.lowpower.preflight import PrintkSettings, Stats
from lab.benchmarks.lowpower.result import SuspendResult, suspend_samples
from lab.benchmarks.lowpower.watch import SuspendWatch, WakeEdge, moments
from lab.console import model
from lab.console.moments import MomentFinder
from lab.control.suspend_monitor import SuspendMonitor
from lab.errors import BoardlabError, BoardTransientError, LabTransientError, TestTransientError
from lab.metrics import Flag, Sample
from lab.rails.model import PhasePower, RailPower

S = 1_000_000_000
AM62 = boards.load("am62xx_sk")
WOKEN = SuspendPlan("deep_sleep", "uart", 5)
FOUND = PrintkSettings("7 4 1 7", ("ttyS2",))
PROMPT = "root@am62xx-evm:~# "
DEEP = """\
[   45.548480] PM: suspend entry (deep)
[   45.669270] Disabling non-boot CPUs ...
[   45.677311] Enabling non-boot CPUs ...
[   45.681332] ti-sci 44043000.system-controller: ti_sci: wakeup source:0x50, pin:0x72, mode:0x0
[   46.032262] PM: suspend exit
""".splitlines()
BY_KEY = [text.replace("source:0x50", "source:0x80") for text in DEEP]


@frozen
class Marker:
    name: str
    t_ns: int
    text: str = ""
    position: int = 0
    uncertainty_ns: int = 1_000_000


def phase(mean_w: float | None) -> PhasePower:
    """A second of two rails, of which one is measured."""
    rails = (RailPower("vdd_core", mean_w=mean_w), RailPower("vddr_core", measured=False))
    return PhasePower(S, 2 * S, rails, RailPower("total", mean_w=mean_w))


def watched(plan: SuspendPlan = WOKEN, alarm_s: int = 65) -> SuspendWatch:
    watch = SuspendWatch(AM62, plan, 0, alarm_s)
    watch.feed(b"boardlab: going 0\r\n", S // 10)
    watch.moment(Marker("going", S // 10))
    return watch


def answered(watch: SuspendWatch, at_ns: int, status: int = 0) -> SuspendWatch:
    watch.feed(b"boardlab: back", at_ns)
    watch.moment(Marker("answer", at_ns, f"boardlab: back {status}"))
    watch.feed(b"boardlab: restored 0\r\n" + PROMPT.encode(), at_ns + S // 100)
    watch.moment(Marker("restored", at_ns))
    return watch


def failure(watch: SuspendWatch, now_ns: int) -> str:
    with pytest.raises(BoardlabError) as raised:
        watch.check(now_ns)
    assert len(str(raised.value)) > 40
    return raised.value.failure


def test_a_board_that_was_woken_and_answers_is_done() -> None:
    watch = watched()
    assert not watch.asleep(3 * S)
    assert watch.asleep(4 * S)
    watch.edge = WakeEdge("uart", 5 * S, 5 * S + 1_000_000)
    answered(watch, 6 * S).check(7 * S)
    assert watch.done
    assert watch.asleep_s == pytest.approx(5.9)


def test_each_way_to_fail_has_its_class() -> None:
    assert failure(SuspendWatch(AM62, SuspendPlan("deep_sleep"), 0, 5), 11 * S) == "did_not_suspend"
    assert failure(answered(watched(), 2 * S, status=1), 3 * S) == "suspend_refused"
    assert failure(answered(watched(), 4 * S), 5 * S) == "early_wake"
    assert failure(answered(watched(SuspendPlan("deep_sleep", "rtc", 5), 5), 2 * S), 3 * S) == "early_wake"
    assert failure(watched(SuspendPlan("deep_sleep", "rtc", 5), 5), 31 * S) == "hung_resume"
    woken = watched()
    woken.edge = WakeEdge("uart", 5 * S, 5 * S)
    woken.check(24 * S)  # a freezer may still give up
    assert failure(woken, 26 * S) == "hung_resume"
    late = watched()
    late.edge = WakeEdge("uart", 15 * S, 15 * S)
    late.check(29 * S)
    assert failure(late, 31 * S) == "hung_resume"
    loud = watched()
    loud.feed(b"x" * 65_536, 3 * S)
    assert failure(loud, 3 * S) == "log_flood"
    half = watched()
    half.moment(Marker("answer", 6 * S, "boardlab: back 0"))
    assert failure(half, 40 * S) == "console_not_restored"


def test_a_board_that_woke_by_itself_just_before_the_key_woke_early() -> None:
    watch = watched()
    watch.edge = WakeEdge("uart", 5 * S, 5 * S + 1_000_000)
    assert failure(answered(watch, 5 * S - 1), 6 * S) == "early_wake"


def test_a_suspend_that_the_kernel_did_not_count_is_none() -> None:
    done = answered(watched(SuspendPlan("deep_sleep", "rtc", 5), 5), 5 * S)
    observed = Observed(FOUND, Stats(3, 0), Stats(3, 0), DEEP, None, None)
    with pytest.raises(BoardTransientError, match="counts 0 more successes") as raised:
        judge(done, observed)
    assert raised.value.failure == "did_not_suspend"
    assert judge(done, evolve(observed, after=Stats(4, 0))).kernel_ms[0] == pytest.approx(354.951)


def test_a_log_without_the_lines_of_the_resume_gives_no_number() -> None:
    done = answered(watched(SuspendPlan("deep_sleep", "rtc", 5), 5), 5 * S)
    lines = [line for line in DEEP if "Enabling" not in line]
    with pytest.raises(TestTransientError, match="Enabling non-boot CPUs"):
        judge(done, Observed(FOUND, Stats(0, 0), Stats(1, 0), lines, None, None))


def test_a_busy_host_makes_the_latency_from_the_edge_less_sure() -> None:
    watch = watched()
    watch.edge = WakeEdge("uart", 5 * S, 5 * S + 2_000_000)
    done = answered(watch, 6 * S)
    result = judge(done, Observed(FOUND, Stats(0, 0), Stats(1, 0), BY_KEY, None, None))
    assert result.since_edge_ms(result.answer) == (998.0, 2.0)
    late = evolve(result, edge=evolve(watch.edge, late_ns=7_000_000))
    assert late.since_edge_ms(late.answer) == (998.0, 8.0)


def resumed(edge: WakeEdge, at_ns: int, first: Marker | None = None) -> SuspendResult:
    watch = watched()
    watch.edge = edge
    if first is not None:
        watch.moment(first)
    return judge(answered(watch, at_ns), Observed(FOUND, Stats(0, 0), Stats(1, 0), BY_KEY, None, None))


def samples(done: SuspendResult) -> dict[str, Sample]:
    found = suspend_samples(done, frozenset(), b"\n".join(line.encode() for line in DEEP), 0)
    return {sample.metric.rpartition(".")[2]: sample for sample in found}


def test_an_input_gives_the_efficiency_of_the_supplies_while_the_board_sleeps() -> None:
    done = resumed(WakeEdge("uart", 5 * S, 5 * S + 1_000_000), 6 * S)
    rails = (
        RailPower("vin", mean_w=0.05, uncertainty_w=0.001),
        RailPower("vdd_core", mean_w=0.04, uncertainty_w=0.0004),
    )
    total = RailPower("total", mean_w=0.04, uncertainty_w=0.0004)
    efficiency = samples(evolve(done, power=PhasePower(S, 2 * S, rails, total, ("vin",))))["efficiency"]
    assert efficiency.value == pytest.approx(80.0)
    assert efficiency.uncertainty == pytest.approx((0.8**2 + 1.6**2) ** 0.5)
    assert "efficiency" not in samples(evolve(done, power=PhasePower(S, 2 * S, rails, total)))


def test_a_board_that_is_heard_before_the_switch_has_answered_had_been_woken_by_then() -> None:
    """A command that takes half a second: the first byte came 0.4 s before its end, which is no negative latency."""
    edge = WakeEdge("gpio", 5 * S, 5 * S + S // 2)
    found = samples(resumed(edge, 6 * S, Marker("first_byte", 5 * S + S // 10)))
    first, prompt = found["resume_wake_to_first_byte"], found["resume_wake_to_prompt"]
    assert (first.value, first.uncertainty) == (0, 100)
    assert Flag.UNCERTAIN in first.flags
    assert (prompt.value, prompt.uncertainty) == (900, 100)
    assert not prompt.flags & {Flag.UNCERTAIN}


def test_nothing_that_the_edge_caused_came_before_it() -> None:
    edge = WakeEdge("uart", 5 * S, 5 * S + 1_000_000)
    found = samples(resumed(edge, 6 * S, Marker("first_byte", 5 * S - 3_000_000)))["resume_wake_to_first_byte"]
    assert (found.value, found.uncertainty) == (0, 4)
    assert Flag.UNCERTAIN in found.flags


@pytest.mark.parametrize(
    ("line", "damaged"),
    [("   45.677311", "   4.677311"), ("   45.677311", "   5.677311"), ("   46.032262", "   4.032262")],
)
def test_a_kernel_time_that_lost_a_digit_gives_no_latency(line: str, damaged: str) -> None:
    """Else it would be 41 s, or less than none."""
    done = answered(watched(SuspendPlan("deep_sleep", "rtc", 5), 5), 5 * S)
    lines = [each.replace(line, damaged) for each in DEEP]
    with pytest.raises(TestTransientError, match=r"clock.*go back") as raised:
        judge(done, Observed(FOUND, Stats(0, 0), Stats(1, 0), lines, None, None))
    assert raised.value.failure == "resume_lines_missing"


class Console:
    """One whose reader has these events."""

    def __init__(self, *events: model.Event) -> None:
        self.capture = list(events)

    def poll(self, _seconds: float) -> bytes:
        return b""


def monitor(watch: SuspendWatch, now_ns: int, *events: model.Event) -> SuspendMonitor:
    power = SimpleNamespace(clock=SimpleNamespace(now_ns=lambda: now_ns))
    board = cast("Any", SimpleNamespace(console=Console(*events), power=power))
    finders = [MomentFinder(moments(AM62), model.LineTiming(115200))]
    return SuspendMonitor(board, watch, finders, FOUND, Stats(0, 0), 0, 0)


BACK = f"boardlab: back 0\r\nboardlab: restored 0\r\n{PROMPT}".encode()


@pytest.mark.parametrize("read_bytes", [1, 20, 40, 62])
def test_the_board_slept_as_long_as_its_console_was_silent_however_the_bytes_were_read(read_bytes: int) -> None:
    """An FTDI adapter hands on 62 bytes at once: the answer and the end of the restoring come in one read."""
    watch = SuspendWatch(AM62, SuspendPlan("deep_sleep", "uart", 40), 0, 100)
    watch.edge = WakeEdge("uart", 41 * S, 41 * S + 1_000_000)
    going = b"boardlab: going 0\r\n"
    reads = [BACK[at : at + read_bytes] for at in range(0, len(BACK), read_bytes)]
    places = accumulate((len(read) for read in reads), initial=len(going))
    said = [model.Chunk(42 * S, place, read) for place, read in zip(places, reads, strict=False)]
    monitor(watch, 42 * S, model.Chunk(S, 0, going), *said).step()
    assert watch.done
    assert watch.asleep_s == 41
    assert asleep_ns(watch) == (S + SETTLE_NS, 41 * S)


def test_the_time_in_which_a_board_puts_everything_back_is_no_sleep() -> None:
    watch = SuspendWatch(AM62, SuspendPlan("deep_sleep", "rtc", 5), 0, 5)
    back, restored = BACK[:18], BACK[18:]
    said = (model.Chunk(5 * S, 19, back), model.Chunk(25 * S, 37, restored))
    monitor(watch, 25 * S, model.Chunk(S, 0, b"boardlab: going 0\r\n"), *said).step()
    assert watch.done
    assert watch.silence == (S, 5 * S)


@pytest.mark.parametrize(
    ("silent_s", "power", "why"),
    [
        (1.0, None, "1.000 s of the 40 s"),
        (40.0, phase(None), "no good sample of vdd_core"),
        (40.0, phase(0.01), ""),
    ],
)
def test_a_suspend_without_mean_power_says_why(silent_s: float, power: PhasePower | None, why: str) -> None:
    watch = SuspendWatch(AM62, SuspendPlan("deep_sleep", "uart", 40), 0, 100)
    watch.feed(b"boardlab: back", round(silent_s * S))
    found = why_no_mean(watch, power)
    assert why in found
    assert bool(found) == bool(why)
    done = answered(watched(SuspendPlan("deep_sleep", "rtc", 5), 5), 5 * S)
    result = judge(done, Observed(FOUND, Stats(3, 0), Stats(4, 0), DEEP, None, power, no_power=found))
    assert result.no_power == found
    assert found in "; ".join(each.why_not for each in result.evidence)


@pytest.mark.parametrize(("missing_ns", "way"), [(30 * S, "behind"), (-S, "ahead")])
def test_a_host_that_slept_beside_the_board_knows_no_latency(missing_ns: int, way: str) -> None:
    """Its clock stood still between the edge and the answer, and would say too little."""
    watch = watched()
    watch.edge = WakeEdge("uart", 5 * S, 5 * S + 1_000_000)
    with pytest.raises(LabTransientError, match=f"went {abs(missing_ns) / S:.3f} s {way}") as raised:
        monitor(watch, 6 * S, model.Suspended(6 * S, 0, missing_ns)).step()
    assert raised.value.failure == "host_suspended"
