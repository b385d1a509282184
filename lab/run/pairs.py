"""A comparison of two builds on one board: pairs of boots, until it is decided.

Each build has a run of its own, of the kind `ab` or `bisect`; the cycles of a pair have the same number in both. The
judge's history does not see them: boots that change the build in between are no night of either.
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

MOST_FAILED: Final = 5  # halves of pairs in a row that may fail
_SKIPPED_AFTER: Final = 2  # failures of a build in a row
_SEEDED: Final = "device_tree"  # of the board's own facts: it may have a seed that is new at each boot
_NAMED: Final = 3  # facts in a message
_LONGEST: Final = 80  # characters of each


class Boots(Protocol):
    """The boots of one build (`lab.run.boot.BootRun`).

    Attributes:
        run: of the kind `ab` or `bisect`.
    """

    run: Run

    def good_attempts(self, *, medium: str) -> Sequence[AttemptRecord]:
        """The good boots from a medium."""
        ...

    def measure(self, item: str, only: Sequence[int] | None = None) -> None:
        """Measure these cycles of a medium."""
        ...


class HalfFailedError(Exception):
    """A boot of a pair failed.

    Args:
        side: the build that did not boot.
        error: of its boot.
    """

    def __init__(self, side: str, error: BoardlabError) -> None:
        super().__init__(f"{side}: {error}")
        self.side, self.error = side, error


@define
class BootPairs:
    """Boots pairs of builds; stored boots are not repeated.

    Attributes:
        sides: build -> its boots.
        seed: of the order of each pair.
        switch: brings a build onto the board.
        alternates: a switch is dear, so every other pair is the other way round.
        cool: lets a board cool down that throttled.
        metric: of boots; empty: the boot time.
        stage: of `boot.stage`.
        differ: the builds must differ in what their boots name; False: they must not; None: they may.
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
    _too_warm: int = field(default=0, init=False)

    def difference(self, pair: int, reference: str, build: str) -> float | None:
        """log(build / reference) of a pair, by number from 1; None: the board throttled.

        Raises:
            HalfFailedError: one of them did not boot.
            ConfigurationError: it throttled in too many pairs in a row, or its boots have no such number.
        """
        is_new = False
        coin = order(self.seed, 1 if self.alternates else pair)
        turned = (coin[0] == "b") != (self.alternates and pair % 2 == 0)
        for side in (build, reference) if turned else (reference, build):
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
            self._too_warm += is_new
            if self._too_warm >= MOST_FAILED:
                raise ConfigurationError(
                    f"the board throttled in {self._too_warm} pairs in a row: give it a fan or a cooler place, then "
                    "go on with --resume"
                )
            if is_new:
                self.cool()
            return None
        self._too_warm = 0
        return math.log(after.value / before.value)

    def check_software(self) -> None:
        """Require one software of each of two builds, and that they differ as asked.

        Raises:
            LabStableError: a build ran two.
            ConfigurationError: the builds ran the same where they have to differ, or the other way round, or nothing
                tells.
        """
        ran = {side: self._software(side) for side in self.sides}
        for side, facts in ran.items():
            for name, texts in facts.items():
                if len(texts) > 1:
                    raise LabStableError(
                        f"no verdict: {self._describe_side(side)} ran two softwares: {name} was {_quote(texts[0])}, "
                        f"then {_quote(texts[1])}; put one back, and begin a new comparison",
                        failure="software_changed",
                    )
        first, second = ran.values()
        both = " and ".join(map(self._describe_side, ran))
        common = [name for name in first if name in second]
        different = [name for name in common if first[name] != second[name]]
        if self.differ and not common:
            raise ConfigurationError(
                f"no verdict: no boot of {both} named its software, so nothing tells whether the slots differ"
            )
        if self.differ and not different:
            named = ", ".join(f"{name} {_quote(first[name][0])}" for name in common[:_NAMED])
            raise ConfigurationError(
                f"no verdict: {both} ran the same software ({named}): the commands choose nothing; correct --slots"
            )
        if self.differ is False and different:
            named = ", ".join(
                f"{name} {_quote(first[name][0])} and {_quote(second[name][0])}" for name in different[:_NAMED]
            )
            raise ConfigurationError(
                f"no verdict: {both} are one software, and ran two: {named}; begin a new comparison"
            )

    def _software(self, side: str) -> dict[str, list[str]]:
        """Name -> the different texts of a build's boots, in their order.

        A line of the firmware that differs between boots of one build was damaged on its way.
        """
        texts_by_name: dict[str, list[str]] = {}
        for attempt in self.sides[side].good_attempts(medium=self.medium):
            lines = dict(attempt.details.get("software") or {})
            console = {name: text for name, text in lines.items() if name not in HARDWARE}
            facts = board_software(attempt.details)
            board = {f"the board's {name}": text for name, text in facts.items() if name != _SEEDED}
            for name, text in (console | board).items():
                texts = texts_by_name.setdefault(name, [])
                if str(text) not in texts:
                    texts.append(str(text))
        return {name: texts for name, texts in texts_by_name.items() if len(texts) == 1 or name not in FIRMWARE}

    def _describe_side(self, side: str) -> str:
        """The build, e.g. `A (setenv bootpart 1:2)`."""
        slot = self.sides[side].run.plan.get("slot")
        return f"{side.upper()} ({slot})" if slot else side.upper()

    def _sample(self, side: str, cycle: int) -> SampleRecord | None:
        names = {self.metric} if self.metric else HEADLINE_NAMES
        for attempt in self.sides[side].good_attempts(medium=self.medium):
            for sample in attempt.samples if attempt.cycle == cycle else ():
                if sample.metric in names and sample.params.get(STAGE, "") == self.stage:
                    return sample
        return None

    def _list_numbers(self) -> str:
        """The numbers of the boots, for a message."""
        names = {
            f"{sample.metric}:{sample.params[STAGE]}" if STAGE in sample.params else sample.metric
            for boots in self.sides.values()
            for attempt in boots.good_attempts(medium=self.medium)
            for sample in attempt.samples
        }
        return f"there are {', '.join(sorted(names))}" if names else "there are none"


def temperatures(store: Store, run: Run) -> tuple[float, float] | None:
    """Lowest and highest of the warmest thermal zone over a run's boots, in °C; None: the board has none."""
    boots = [attempt.details.get("cross_check", {}).get("temperatures_c", {}) for attempt in store.attempts(run.id)]
    warmest = [max(zones.values()) for zones in boots if zones]
    return (min(warmest), max(warmest)) if warmest else None


@frozen
class PairedResult:
    """The end of a comparison.

    Attributes:
        failed: side -> number of its boots that failed.
    """

    verdict: PairedVerdict
    failed: Mapping[str, int]


def compare(pairs: BootPairs, plan: PairedPlan, say: Callable[[str], None]) -> PairedResult:
    """Boot "a" and "b" until it is decided, or the plan's pairs are booted.

    Raises:
        BoardlabError: one that another try would not mend, or too many in a row, or the software is not as it has to
            be.
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
    """Boot pairs of builds until the first bad one is known.

    A build that fails twice in a row is skipped.

    Args:
        builds: names of `pairs.sides`, from the good one to the bad one.
        effect: smallest difference, relative.

    Raises:
        BoardlabError: the good build fails, or another fault than the board's.
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
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


def describe(verdict: PairedVerdict) -> str:
    """A verdict in a line, e.g. `different: B is +1.2 % (+0.6 % to +1.9 %) after 20 pairs`."""
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
