"""A comparison of two builds: which boots it makes, what it makes of failures, and how it goes on."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from attrs import define, evolve, field
from support.facts import missing_facts
from support.simruns import bench

from lab.errors import BoardTransientError, ConfigurationError, LabStableError
from lab.host.clock import utc_now
from lab.judge.paired import PairedOutcome, PairedPlan
from lab.metrics import Flag
from lab.results import AttemptRecord, Run, SampleRecord, Store, open_store
from lab.results.records import AB
from lab.run.pairs import MOST_FAILED, BootPairs, PairedResult, bisect, compare, describe, temperatures


@define
class MadeBoots:
    """Boots whose times are made: 16 s, 0.6 % jitter, and what the build adds."""

    store: Store
    run: Run
    factor: float
    trace: list[tuple[str, int]]
    dice: random.Random
    fails: Callable[[int], bool] = lambda _cycle: False
    throttles: Callable[[int], bool] = lambda _cycle: False
    tries: int = 0
    software: Callable[[int], dict[str, str]] = lambda _cycle: {}

    def good_attempts(self, *, medium: str) -> Sequence[AttemptRecord]:
        return [each for each in self.store.attempts(self.run.id) if each.ok and each.params["medium"] == medium]

    def measure(self, medium: str, only: Sequence[int] | None = None) -> None:
        for cycle in only or ():
            self.tries += 1
            self.trace.append((self.run.release, cycle))
            if self.fails(self.tries):
                raise BoardTransientError("hung", failure="hang_kernel")
            value = 16 * self.factor * (1 + self.dice.gauss(0, 0.006))
            flags = frozenset({Flag.THROTTLED} if self.throttles(cycle) else ())
            samples = (
                SampleRecord("boot.time", {"medium": medium}, value, 1e-4, flags),
                SampleRecord("boot.stage", {"medium": medium, "stage": "Kernel"}, 2 + self.factor, 1e-4, flags),
                SampleRecord("boot.stage", {"medium": medium, "stage": "User space"}, 1.0, 1e-4, flags),
            )
            temperatures_c = {"thermal_zone0": 40.0 + cycle, "thermal_zone1": 39.0}
            details = {"cross_check": {"temperatures_c": temperatures_c, "software": self.software(cycle)}}
            self.store.record_attempt(
                self.run.id,
                AttemptRecord(
                    cycle, 1, {"medium": medium}, "ok", None, None, "", utc_now(), 20.0, samples, details=details
                ),
            )


@define
class Comparison:
    """A comparison of A with B."""

    store: Store
    factor: float = 1.0
    trace: list[tuple[str, int]] = field(factory=list)
    switches: list[str] = field(factory=list)
    sides: dict[str, MadeBoots] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.sides = {
            side: MadeBoots(
                self.store,
                self.store.begin_run(AB, "am62xx_sk", "sk-1", side, plan={"cycles": 60}, provenance={}),
                factor,
                self.trace,
                random.Random(side),
            )
            for side, factor in (("a", 1.0), ("b", self.factor))
        }

    def measure(
        self, *, alternates: bool = False, switch: Callable[[str], None] | None = None, differ: bool | None = None
    ) -> PairedResult:
        pairs = BootPairs(self.sides, 7, "sd", switch or self.switches.append, alternates, differ=differ)
        return compare(pairs, PairedPlan(), lambda _line: None)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "results.db")) as opened:
        yield opened


def test_a_difference_ends_the_comparison_and_equal_builds_take_longer(store: Store) -> None:
    slower, same = Comparison(store, 1.03), Comparison(store)
    found, equal = slower.measure().verdict, same.measure().verdict
    assert (found.outcome, equal.outcome) == (PairedOutcome.DIFFERENT, PairedOutcome.EQUAL)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.03 < found.high
    assert len(slower.trace) < len(same.trace) <= 120
    assert describe(found).startswith("different: B is +")


def test_both_builds_boot_once_a_pair_in_a_random_order(store: Store) -> None:
    made = Comparison(store, 1.03)
    made.measure()
    pairs = [tuple(made.trace[n : n + 2]) for n in range(0, len(made.trace), 2)]
    assert all({side for side, _ in pair} == {"a", "b"} and pair[0][1] == pair[1][1] for pair in pairs)
    assert len({pair[0][0] for pair in pairs}) == 2
    assert made.switches == [side for side, _ in made.trace]


def test_a_dear_switch_is_made_once_a_pair(store: Store) -> None:
    made = Comparison(store, 1.03)
    made.measure(alternates=True)
    sides = [side for side, _ in made.trace]
    assert sum(one != other for one, other in itertools.pairwise(sides)) == len(sides) // 2


def test_it_goes_on_behind_the_boots_that_are_in_the_store(store: Store) -> None:
    made = Comparison(store, 1.03)
    made.sides["b"].fails = lambda tries: tries > 3 and _killed()
    with pytest.raises(KeyboardInterrupt):
        made.measure()
    before = len(made.trace)
    made.trace.clear()
    made.sides["b"].fails = lambda _tries: False
    verdict = made.measure().verdict
    assert before + len(made.trace) <= 2 * verdict.pairs + 1


def _killed() -> bool:
    raise KeyboardInterrupt


def test_a_pair_with_a_failed_half_counts_for_nothing(store: Store) -> None:
    made = Comparison(store, 1.03)
    made.sides["b"].fails = lambda tries: tries in {2, 5}
    result = made.measure()
    assert result.failed == {"a": 0, "b": 2}
    assert result.verdict.pairs == len({cycle for side, cycle in made.trace if side == "b"}) - 2


def test_a_pair_in_which_the_board_throttled_does_not_count_and_the_board_cools_down(store: Store) -> None:
    made, waits = Comparison(store, 1.03), list[str]()
    made.sides["a"].throttles = lambda cycle: cycle in {2, 5}
    made.sides["b"].throttles = lambda cycle: cycle == 5
    for _ in range(2):  # the second time from the store, where nothing is to be cooled
        pairs = BootPairs(made.sides, 7, "sd", made.switches.append, cool=lambda: waits.append("cool"))
        verdict = compare(pairs, PairedPlan(), lambda _line: None).verdict
        assert verdict.pairs == len({cycle for _, cycle in made.trace}) - 2
        assert waits == ["cool"] * 2
    assert temperatures(store, made.sides["a"].run) == (41.0, 40.0 + verdict.pairs + 2)


def test_a_board_that_throttles_all_the_time_ends_the_comparison(store: Store) -> None:
    made = Comparison(store)
    made.sides["a"].throttles = lambda _cycle: True
    for _ in range(2):  # what is in the store is not held against it again
        before = len(made.trace)
        with pytest.raises(ConfigurationError, match=r"throttled in 5 pairs"):
            made.measure()
        assert len(made.trace) - before == 2 * MOST_FAILED


def test_pairs_compare_the_number_that_is_asked_for(store: Store) -> None:
    made = Comparison(store, 2.0)

    def pairs(metric: str, stage: str) -> BootPairs:
        return BootPairs(made.sides, 7, "sd", made.switches.append, metric=metric, stage=stage)

    assert pairs("boot.stage", "Kernel").difference(1, "a", "b") == pytest.approx(math.log(4 / 3))
    assert pairs("boot.stage", "User space").difference(1, "a", "b") == 0.0
    with pytest.raises(ConfigurationError, match=r"stage.*stage:Kernel"):
        pairs("boot.stage", "kernel").difference(2, "a", "b")


def test_a_slot_is_chosen_at_u_boot_s_prompt_before_each_boot(tmp_path: Path) -> None:
    with bench(tmp_path, cycles=2) as made:
        made.run.at_uboot = "setenv bootpart 1:3"
        attempts = made.measure()
        assert [each.outcome for each in attempts] == ["ok", "ok"]
        logs = [
            made.store.artifacts.read(ref.sha256).decode("latin-1")
            for each in attempts
            for ref in each.artifacts
            if ref.kind == "console-log"
        ]
    assert all(0 <= log.find("setenv bootpart 1:3") < log.find("Starting kernel") for log in logs)


def test_slots_that_ran_one_software_get_no_verdict_after_the_first_pair(store: Store) -> None:
    made = Comparison(store)
    for boots in made.sides.values():
        boots.run = evolve(boots.run, plan={"slot": f"setenv part {boots.run.release}"})
        boots.software = lambda cycle: {"kernel_build": "#1 SMP", "device_tree": f"seed {cycle}"}
    with pytest.raises(ConfigurationError) as refused:
        made.measure(differ=True)
    assert not missing_facts(str(refused.value), "no verdict", "setenv part a", "setenv part b")
    assert "'#1 SMP'" in str(refused.value)
    assert len(made.trace) == 2
    made.sides["b"].software = lambda _cycle: {"kernel_build": "#2 SMP"}
    other = Comparison(store, 1.03)
    for side, build in (("a", "#1 SMP"), ("b", "#2 SMP")):
        other.sides[side].software = lambda _cycle, build=build: {"kernel_build": build}
    assert other.measure(differ=True).verdict.outcome is PairedOutcome.DIFFERENT
    with pytest.raises(ConfigurationError, match=r"'#1 SMP'.*'#2 SMP'"):
        other.measure(differ=False)


def test_slots_whose_boots_name_no_software_get_no_verdict(store: Store) -> None:
    with pytest.raises(ConfigurationError, match=r"no verdict.*named"):
        Comparison(store).measure(differ=True)


def test_a_side_that_ran_two_softwares_gets_no_verdict(store: Store) -> None:
    made = Comparison(store)
    made.sides["a"].software = lambda _cycle: {"kernel_build": "#1 SMP"}
    made.sides["b"].software = lambda cycle: {"kernel_build": "#2 SMP" if cycle < 3 else "#1 SMP"}
    with pytest.raises(LabStableError, match=r"'#2 SMP'.*'#1 SMP'"):
        made.measure(differ=True)
    assert len(made.trace) < 20, "at the first look"


def test_a_build_that_never_boots_ends_it(store: Store) -> None:
    made = Comparison(store)
    made.sides["b"].fails = lambda _tries: True
    with pytest.raises(BoardTransientError, match="hung"):
        made.measure()
    assert made.sides["b"].tries == MOST_FAILED


def test_an_error_that_no_try_mends_ends_it_at_once(store: Store) -> None:
    made = Comparison(store)

    def wrong(_side: str) -> None:
        raise ConfigurationError("no such release")

    with pytest.raises(ConfigurationError, match="no such release"):
        made.measure(switch=wrong)
    assert made.trace == []


def test_a_bisection_boots_builds_against_the_good_one_and_skips_what_does_not_boot(store: Store) -> None:
    names = [f"build-{number}" for number in range(8)]
    trace: list[tuple[str, int]] = []
    sides = {}
    for number, name in enumerate(names):
        run = store.begin_run(AB, "am62xx_sk", "sk-1", name, plan={}, provenance={})
        sides[name] = MadeBoots(store, run, 1.03 if number >= 5 else 1.0, trace, random.Random(name))
    sides["build-3"].fails = lambda _tries: True
    pairs = BootPairs(sides, 7, "sd", lambda _side: None)
    found = bisect(pairs, names, 0.005, lambda _line: None)
    assert (found.first_bad, found.skipped) == (5, (3,))
    assert sides["build-3"].tries == 2
    booted = len(trace)
    assert bisect(pairs, names, 0.005, lambda _line: None) == found, "it is in the store"
    assert len(trace) - booted == 2, "what does not boot is tried again"
