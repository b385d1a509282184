"""Comparisons of builds on one board by pairs of boots, until the difference is decided.

Each build has a run of its own, of the kind `ab` or `bisect`; both boots of a pair have the same cycle number in their
runs. The judge's history leaves these runs out: a board that changes its build at each boot is not in the state of a
nightly run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Final, Protocol

from attrs import define, field, frozen

from lab.benchmarks.versions import FIRMWARE, HARDWARE
from lab.errors import BoardlabError, ConfigurationError, LabStableError
from lab.judge.bisection import Answer, BisectionResult, BuildPair, following
from lab.judge.builds import board_software
from lab.judge.paired import PairedOutcome, PairedPlan, PairedVerdict, judge_pairs, order
from lab.metrics import Flag
from lab.metrics.catalogue import HEADLINE_NAMES
from lab.results import AttemptRecord, Run, SampleRecord, Store
from lab.results.listing import STAGE

MOST_FAILED: Final = 5  # pairs in a row that may fail, or in which the board throttles
_SKIPPED_AFTER: Final = 2  # failed boots in a row after which a bisection skips a build
_SEEDED: Final = "device_tree"  # the one fact of the board that may contain a seed, which is new at each boot
_MAX_FACTS: Final = 3  # in a message
_MAX_FACT_LENGTH: Final = 80  # in a message


class Boots(Protocol):
    """The boots of one build, a `lab.run.boot.BootRun`.

    Attributes:
        run: their run, of the kind `ab` or `bisect`.
    """

    run: Run

    def good_attempts(self, *, medium: str) -> Sequence[AttemptRecord]:
        """Return the good boots from a medium."""
        ...

    def measure(self, item: str, only: Sequence[int] | None = None) -> None:
        """Measure these cycles of a medium."""
        ...


class HalfFailedError(Exception):
    """One of the two boots of a pair failed.

    Args:
        side: the build that did not boot.
        error: error of its boot.
    """

    def __init__(self, side: str, error: BoardlabError) -> None:
        super().__init__(f"{side}: {error}")
        self.side, self.error = side, error


@define
class BootPairs:
    """Boots pairs of builds; a boot that the store has already is not repeated.

    Attributes:
        sides: build -> its boots.
        seed: seed of the random order within each pair.
        switch: brings a build onto the board.
        alternates: True if switching is expensive: then each pair begins with the build that the one before ended
            with.
        cool: waits until a board that throttled has cooled down.
        metric: metric that is compared; empty: the boot time.
        stage: stage of the boot, for the metric `boot.stage`.
        differ: True: the boots of both builds must show different software; False: the same; None: either.
    """

    sides: Mapping[str, Boots]
    seed: int
    medium: str
    switch: Callable[[str], None]
    alternates: bool = False
    cool: Callable[[], None] = lambda: None
    metric: str = ""
    stage: str = ""
    differ: bool | None = None
    _throttled_pairs: int = field(default=0, init=False)  # in a row, booted in this session

    def difference(self, pair: int, reference: str, build: str) -> float | None:
        """Boot a pair, unless the store has it, and return its difference.

        Args:
            pair: number of the pair, from 1.

        Returns:
            log(build / reference) of the metric; None: the board throttled, and the pair does not count.

        Raises:
            HalfFailedError: one of the two did not boot.
            ConfigurationError: the board throttled in too many pairs in a row, or its boots have no such number.
        """
        is_new = False
        first, _ = order(self.seed, 1 if self.alternates else pair)
        build_first = (first == "b") != (self.alternates and pair % 2 == 0)
        for side in (build, reference) if build_first else (reference, build):
            if self._sample(side, pair) is None:
                is_new = True
                try:
                    self.switch(side)
                    self.sides[side].measure(self.medium, [pair])
                except BoardlabError as error:
                    raise HalfFailedError(side, error) from error
        before, after = self._sample(reference, pair), self._sample(build, pair)
        if before is None or after is None or not (before.value > 0 and after.value > 0):
            raise ConfigurationError(
                f"pair {pair} has no {self.metric or 'boot time'} {self.stage} of {self.medium}: "
                f"{self._list_numbers()}"
            )
        if Flag.THROTTLED in before.flags | after.flags:
            self._throttled_pairs += is_new
            if self._throttled_pairs >= MOST_FAILED:
                raise ConfigurationError(
                    f"the board throttled in {self._throttled_pairs} pairs in a row: give it a fan or a cooler place, "
                    "then continue with --resume"
                )
            if is_new:
                self.cool()
            return None
        self._throttled_pairs = 0
        return math.log(after.value / before.value)

    def check_software(self) -> None:
        """Require that each build always ran the same software, and that the builds differ as `differ` says.

        Raises:
            LabStableError: the software of one build has changed (`software_changed`).
            ConfigurationError: both builds ran the same software though they have to differ, or the other way round,
                or no boot named its software.
        """
        software = {side: self._software(side) for side in self.sides}
        for side, facts in software.items():
            for name, texts in facts.items():
                if len(texts) > 1:
                    raise LabStableError(
                        f"no verdict: the software of {self._describe_side(side)} has changed: {name} was "
                        f"{_quote(texts[0])}, then {_quote(texts[1])}. Put one of them back, and begin a new "
                        "comparison",
                        failure="software_changed",
                    )
        first, second = software.values()
        both = " and ".join(map(self._describe_side, software))
        common = [name for name in first if name in second]
        different = [name for name in common if first[name] != second[name]]
        if self.differ and not common:
            raise ConfigurationError(
                f"no verdict: no boot of {both} named its software, so nothing shows whether the slots differ"
            )
        if self.differ and not different:
            facts_text = ", ".join(f"{name} {_quote(first[name][0])}" for name in common[:_MAX_FACTS])
            raise ConfigurationError(
                f"no verdict: {both} ran the same software ({facts_text}): the commands of --slots select nothing; "
                "correct them"
            )
        if self.differ is False and different:
            facts_text = ", ".join(
                f"{name} {_quote(first[name][0])} and {_quote(second[name][0])}" for name in different[:_MAX_FACTS]
            )
            raise ConfigurationError(
                f"no verdict: {both} have to run one software, and ran two: {facts_text}; begin a new comparison"
            )

    def _software(self, side: str) -> dict[str, list[str]]:
        """Return the software that a build's boots have shown: name -> its different texts, in their order.

        A version of the firmware that differs between boots of one build is left out: its line was damaged.
        """
        texts_by_name: dict[str, list[str]] = {}
        for attempt in self.sides[side].good_attempts(medium=self.medium):
            versions = dict(attempt.details.get("software") or {})
            printed = {name: text for name, text in versions.items() if name not in HARDWARE}
            facts = board_software(attempt.details)
            answered = {f"the board's {name}": text for name, text in facts.items() if name != _SEEDED}
            for name, text in (printed | answered).items():
                texts = texts_by_name.setdefault(name, [])
                if str(text) not in texts:
                    texts.append(str(text))
        return {name: texts for name, texts in texts_by_name.items() if len(texts) == 1 or name not in FIRMWARE}

    def _describe_side(self, side: str) -> str:
        """Return a build's name with its slot's command, e.g. `A (setenv bootpart 1:2)`."""
        slot = self.sides[side].run.plan.get("slot")
        return f"{side.upper()} ({slot})" if slot else side.upper()

    def _sample(self, side: str, cycle: int) -> SampleRecord | None:
        """Return the compared number of a build's boot; None: there is no good boot, or it lacks the number."""
        names = {self.metric} if self.metric else HEADLINE_NAMES
        for attempt in self.sides[side].good_attempts(medium=self.medium):
            for sample in attempt.samples if attempt.cycle == cycle else ():
                if sample.metric in names and sample.params.get(STAGE, "") == self.stage:
                    return sample
        return None

    def _list_numbers(self) -> str:
        """Return the names of the numbers that the boots have, for a message."""
        names = {
            f"{sample.metric}:{sample.params[STAGE]}" if STAGE in sample.params else sample.metric
            for boots in self.sides.values()
            for attempt in boots.good_attempts(medium=self.medium)
            for sample in attempt.samples
        }
        return f"there are {', '.join(sorted(names))}" if names else "there are none"


def temperatures(store: Store, run: Run) -> tuple[float, float] | None:
    """Return the lowest and the highest temperature over a run's boots, in °C.

    Of each boot its warmest thermal zone counts. None: the board has no thermal zone.
    """
    boots = [attempt.details.get("cross_check", {}).get("temperatures_c", {}) for attempt in store.attempts(run.id)]
    warmest = [max(zones.values()) for zones in boots if zones]
    return (min(warmest), max(warmest)) if warmest else None


@frozen
class PairedResult:
    """The result of a comparison of two builds.

    Attributes:
        failed: build -> number of its boots that failed.
    """

    verdict: PairedVerdict
    failed: Mapping[str, int]


def compare(pairs: BootPairs, plan: PairedPlan, say: Callable[[str], None]) -> PairedResult:
    """Boot the builds "a" and "b" until their difference is decided, or all pairs of the plan are booted.

    Args:
        say: takes a line of progress.

    Raises:
        BoardlabError: a boot failed with a stable error, too many pairs failed in a row, or `check_software` refuses
            the builds.
    """
    differences: list[float] = []
    failed, in_row = {"a": 0, "b": 0}, 0
    for pair in count(1):
        try:
            difference = pairs.difference(pair, "a", "b")
        except HalfFailedError as half:
            failed[half.side] += 1
            in_row += 1
            if in_row >= MOST_FAILED or not half.error.transient:
                raise half.error from None
            say(f"pair {pair} does not count: {half}")
            continue
        if difference is None:
            say(f"pair {pair} does not count: the board throttled")
            continue
        in_row = 0
        differences.append(difference)
        is_looked_at = plan.look_after(len(differences)) is not None
        if is_looked_at or len(differences) == 1:
            pairs.check_software()
        if not is_looked_at:
            continue
        verdict = judge_pairs(differences, plan)
        say(describe(verdict))
        if verdict.outcome is not PairedOutcome.UNDECIDED or len(differences) >= plan.pairs:
            return PairedResult(verdict, failed)
    raise AssertionError


def bisect(pairs: BootPairs, builds: Sequence[str], effect: float, say: Callable[[str], None]) -> BisectionResult:
    """Boot pairs of builds until the first slow build is known.

    A build whose boots fail twice in a row is skipped.

    Args:
        builds: keys of `pairs.sides`, from the oldest build, which is good, to the newest, which is bad.
        effect: smallest relative difference that makes a build bad, e.g. 0.02.
        say: takes a line of progress.

    Raises:
        BoardlabError: the reference of a pair keeps failing, or a boot failed by another fault than the board's.
    """
    answers: list[tuple[BuildPair, Answer]] = []
    pair = failed = 0
    while isinstance(question := following(len(builds), answers, effect), BuildPair):
        pair += 1
        reference, build = builds[question.reference], builds[question.build]
        try:
            difference = pairs.difference(pair, reference, build)
        except HalfFailedError as half:
            failed += 1
            say(f"pair {pair} does not count: {half}")
            if (half.side == reference and failed >= MOST_FAILED) or half.error.fault != "board":
                raise half.error from None
            if half.side == build and failed >= _SKIPPED_AFTER:
                say(f"{build} does not boot: skipped")
                answers.append((question, None))
                failed = 0
            continue
        if difference is None:
            say(f"pair {pair} does not count: the board throttled")
            continue
        failed = 0
        answers.append((question, difference))
        say(f"pair {pair}: {build} is {100 * math.expm1(difference):+.2f} % against {reference}")
    return question


def _quote(text: str) -> str:
    """Return the text in quotes, cut if it is long."""
    return repr(text if len(text) <= _MAX_FACT_LENGTH else f"{text[:_MAX_FACT_LENGTH]}…")


def describe(verdict: PairedVerdict) -> str:
    """Return a verdict as a line, e.g. `different: B is +1.20 % (+0.60 % to +1.90 %) after 20 pairs`."""
    words = {
        PairedOutcome.DIFFERENT: "different",
        PairedOutcome.EQUAL: "equal within the effect",
        PairedOutcome.UNDECIDED: "undecided",
    }[verdict.outcome]
    interval = (
        "no interval yet"
        if verdict.low is None or verdict.high is None
        else f"{100 * verdict.low:+.2f} % to {100 * verdict.high:+.2f} %"
    )
    text = f"{words}: B is {100 * verdict.estimate:+.2f} % ({interval}) after {verdict.pairs} pairs"
    if verdict.dropped:
        text += f", {verdict.dropped} gross differences dropped"
    if verdict.outcome is PairedOutcome.UNDECIDED and verdict.findable is not None:
        text += f"; so many find {100 * verdict.findable:.2f} % in 95 of 100"
    return text
