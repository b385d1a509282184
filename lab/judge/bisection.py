"""Bisection of a change over builds, by paired boots against the good one.

First the last build is compared with the good one (`lab.judge.paired`): without a difference there is nothing to find. Each step is
Wald's sequential probability ratio test between no difference and that one. The found build is then compared with the one before it;
where they do not differ, a step was wrong, and the search begins again with smaller errors.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import Final, TypeAlias

import numpy as np
from attrs import define, field, frozen

from lab.errors import ConfigurationError
from lab.judge.paired import EFFECT, PairedOutcome, PairedPlan, hodges_lehmann, judged

_ERRORS: Final = (0.02, 0.005, 0.001)  # of each step, round by round
_CHECK_ERROR: Final = 0.005  # of the comparison of the last two
_MOST: Final = 30  # pairs of a step
_WIDE: Final = 0.12  # deviation of a difference with an outlier, relative
_OUTLIERS: Final = 0.04  # their share among differences
_SPREAD: Final = 0.2  # of the change: assumed difference of two builds for other reasons
_PRIOR_BUILDS: Final = 2  # of that: so many builds' worth of it
_SURE: Final = 0.95
_TOO_MUCH: Final = 0.3  # of the change: spread of the builds from which on a search is right in fewer than 9 of 10

Answer: TypeAlias = float | None  # log(build / reference); None: the build does not boot


@frozen
class Compared:
    """A pair of boots: the reference's, and the build's; indices of the list of builds."""

    reference: int
    build: int


@frozen
class Bisected:
    """The result of a search; builds are indices.

    Attributes:
        first_bad: None: there is no difference between the good build and the last one.
        candidates: builds that hold 95 % of the probability, `first_bad` among them, in order.
        confidence: the probability that it is `first_bad`.
        change: relative, of the last build to the good one. spread: of the builds for other reasons, relative.
        skipped: builds that do not boot. pairs: number of pairs.
    """

    first_bad: int | None
    candidates: tuple[int, ...]
    confidence: float
    change: float
    spread: float
    skipped: tuple[int, ...]
    pairs: int

    @property
    def sure(self) -> bool:
        """True if one build is named with 95 %, and the builds are alike otherwise."""
        return self.first_bad is not None and len(self.candidates) == 1 and not self.builds_differ

    @property
    def builds_differ(self) -> bool:
        """True if the builds differ too much for other reasons to tell."""
        return self.spread > abs(self.change) * _TOO_MUCH


def following(builds: int, answers: Sequence[tuple[Compared, Answer]], effect: float = EFFECT) -> Compared | Bisected:
    """The next pair to boot, or the result, after the pairs so far.

    The same answers lead to the same question, so a search that was killed goes on from its stored pairs.

    Raises:
        ConfigurationError: the answers belong to another list of builds; or the good or the last build does not boot.
    """
    if builds < 2:
        raise ConfigurationError("a bisection needs two builds at least: a good one and a bad one")
    search = _Search(builds, effect)
    questions = search.run()
    question = next(questions)
    try:
        for asked, answer in answers:
            if asked != question:
                raise ConfigurationError(
                    f"the stored pairs are of another search: pair {len(search.seen) + 1} compares builds {asked.reference + 1} and "
                    f"{asked.build + 1}, now {question.reference + 1} and {question.build + 1} are due. Begin anew, or bring the builds back"
                )
            question = questions.send(answer)
    except StopIteration as end:
        result: Bisected = end.value
        return result
    return question


@define
class _Search:
    builds: int
    effect: float
    seen: list[tuple[Compared, float]] = field(factory=list)
    skipped: set[int] = field(factory=set)
    size: float = 0.0
    sigma: float = 0.0

    def run(self) -> Generator[Compared, Answer, Bisected]:
        last = self.builds - 1
        if not (yield from self._confirm(last)):
            return Bisected(None, (), 0.0, math.expm1(self.size), 0.0, (), len(self.seen))
        high = last
        for error in _ERRORS:
            low, high = 0, last
            while (middle := self._middle(low, high)) is not None:
                bad = yield from self._is_bad(0, middle, error)
                if bad:
                    high = middle
                elif bad is not None:
                    low = middle
            if (yield from self._is_bad(low, high, _CHECK_ERROR)):
                break
        return self._result(low, high)

    def _middle(self, low: int, high: int) -> int | None:
        """The build nearest to the middle that boots; None: none is between."""
        free = [build for build in range(low + 1, high) if build not in self.skipped]
        return min(free, key=lambda build: (abs(2 * build - low - high), build), default=None)

    def _pair(self, reference: int, build: int) -> Generator[Compared, Answer, Answer]:
        asked = Compared(reference, build)
        answer = yield asked
        if answer is not None:
            self.seen.append((asked, answer))
        return answer

    def _confirm(self, last: int) -> Generator[Compared, Answer, bool]:
        plan, found = PairedPlan(effect=self.effect), list[float]()
        while len(found) < plan.pairs:
            answer = yield from self._pair(0, last)
            if answer is None:
                raise ConfigurationError("the good or the bad build does not boot: give two builds that do")
            found.append(answer)
            if plan.look_after(len(found)) is None:
                continue
            outcome = judged(found, plan).outcome
            if outcome is not PairedOutcome.UNDECIDED:
                break
        else:
            outcome = PairedOutcome.UNDECIDED
        values = np.asarray(found)
        self.size = hodges_lehmann(values)
        self.sigma = max(1e-4, 1.4826 * float(np.median(np.abs(values - np.median(values)))))
        return outcome is PairedOutcome.DIFFERENT

    def _is_bad(self, reference: int, build: int, error: float) -> Generator[Compared, Answer, bool | None]:
        """None: the build does not boot."""
        limit, total = math.log((1 - error) / error), 0.0
        for _ in range(_MOST):
            answer = yield from self._pair(reference, build)
            if answer is None:
                self.skipped.add(build)
                return None
            total += self._log_ratio(answer)
            if abs(total) > limit:
                break
        return total > 0

    def _log_ratio(self, difference: float) -> float:
        """Log likelihood ratio of one difference, the change against none; outliers have a wide part."""
        sigma = math.hypot(self.sigma, _SPREAD * self.size)

        def density(x: float) -> float:
            normal = (1 - _OUTLIERS) * math.exp(-0.5 * (x / sigma) ** 2) / sigma
            return normal + _OUTLIERS * math.exp(-0.5 * (x / max(_WIDE, 5 * sigma)) ** 2) / max(_WIDE, 5 * sigma)

        return math.log(density(difference - self.size) / density(difference))

    def _result(self, low: int, high: int) -> Bisected:
        offsets = self._offsets()
        spread = self._spread(offsets, high)
        logs = {first: self._likelihood(offsets, spread, first) for first in range(1, self.builds)}
        whole = math.log(sum(math.exp(each - max(logs.values())) for each in logs.values())) + max(logs.values())
        odds = {first: math.exp(each - whole) for first, each in logs.items()}
        wanted: list[int] = [high]
        # Builds that do not boot lie between: each of them may be the first bad one.
        wanted += range(low + 1, high)
        for build in sorted(odds, key=lambda each: -odds[each]):
            if sum(odds[each] for each in wanted) >= _SURE:
                break
            if build not in wanted:
                wanted.append(build)
        return Bisected(
            high,
            tuple(sorted(wanted)),
            odds[high],
            math.expm1(self.size),
            spread,
            tuple(sorted(self.skipped)),
            len(self.seen),
        )

    def _offsets(self) -> dict[Compared, tuple[float, int]]:
        """Builds that were compared -> their median difference, and the number of pairs."""
        found: dict[Compared, list[float]] = {}
        for asked, answer in self.seen:
            found.setdefault(asked, []).append(answer)
        return {asked: (float(np.median(values)), len(values)) for asked, values in found.items()}

    def _expected(self, asked: Compared, first: int) -> float:
        return self.size * ((asked.build >= first) - (asked.reference >= first))

    def _spread(self, offsets: dict[Compared, tuple[float, int]], first: int) -> float:
        """Deviation of builds from the two levels, without that of their boots."""
        squares = sum(
            (value - self._expected(asked, first)) ** 2 - self.sigma**2 / count
            for asked, (value, count) in offsets.items()
        )
        known = max(0.0, squares) + _PRIOR_BUILDS * (_SPREAD * self.size / 2) ** 2
        return math.sqrt(known / (len(offsets) + _PRIOR_BUILDS))

    def _likelihood(self, offsets: dict[Compared, tuple[float, int]], spread: float, first: int) -> float:
        total = 0.0
        for asked, (value, count) in offsets.items():
            variance = spread**2 + self.sigma**2 / count
            total -= 0.5 * (value - self._expected(asked, first)) ** 2 / variance
        return total
