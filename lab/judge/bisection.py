"""Bisection of a change over builds, by boots paired with the good.

First the last build is compared with the good one (`lab.judge.paired`): without a difference there is nothing to find.
Each step is Wald's sequential probability ratio test between no difference and that one. The found build is then
compared with the one before it; where they do not differ, a step was wrong, and the search begins again with smaller
errors. A sure result is held against builds beside it: the probabilities follow from the differences of all builds,
which tell how far builds differ for other reasons.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import Final, TypeAlias

import numpy as np
from attrs import define, field, frozen

from lab.errors import ConfigurationError
from lab.judge.paired import EFFECT, PairedOutcome, PairedPlan, hodges_lehmann, judge_pairs

_ERRORS: Final = (0.02, 0.005, 0.001)  # of each step, round by round
_CHECK_ERROR: Final = 0.005  # of the comparison of the last two
_MOST: Final = 30  # pairs of a step
_NEIGHBOURS, _NEIGHBOUR_PAIRS = 3, 3  # builds that are compared at the end, and pairs of each
_WIDE: Final = 0.12  # deviation of a difference with an outlier, relative
_OUTLIERS: Final = 0.04  # their share among differences
_SPREAD: Final = 0.2  # of the change: assumed difference of two builds for other reasons
# Of the change: deviations of builds for other reasons
_SPREADS: Final = (0.02, 0.06, 0.1, 0.14, 0.18, 0.22, 0.26, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8)
_USUAL_SPREAD: Final = 0.1  # of the change: mean of such deviations before anything is measured
_SIZES: Final = 3.0  # of the change: deviation of changes that are possible
_SURE: Final = 0.95
_TOO_MUCH: Final = 0.3  # of the change: spread of the builds from which on a search is right in fewer than 9 of 10

Answer: TypeAlias = float | None  # log(build / reference); None: the build does not boot


@frozen
class BuildPair:
    """A pair of boots: the reference's, and the build's; indices of the list of builds."""

    reference: int
    build: int


@frozen
class BisectionResult:
    """The result of a search; builds are indices.

    Attributes:
        first_bad: None: no difference between the good build and the last one was found.
        candidates: builds that hold 95 % of the probability, `first_bad` among them, in order.
        confidence: the probability that it is `first_bad`.
        change: relative, of the last build to the good one.
        spread: of the builds for other reasons, relative.
        skipped: builds that do not boot.
        pairs: number of pairs.
        is_undecided: the pairs of the good and the last build tell neither that they differ nor that they are equal.
    """

    first_bad: int | None
    candidates: tuple[int, ...]
    confidence: float
    change: float
    spread: float
    skipped: tuple[int, ...]
    pairs: int
    is_undecided: bool = False

    @property
    def sure(self) -> bool:
        """True if one build is named with 95 %, and the builds are alike otherwise."""
        return self.first_bad is not None and len(self.candidates) == 1 and not self.builds_differ

    @property
    def builds_differ(self) -> bool:
        """True if the builds differ too much for other reasons to tell."""
        return self.spread > abs(self.change) * _TOO_MUCH


def following(
    builds: int, answers: Sequence[tuple[BuildPair, Answer]], effect: float = EFFECT
) -> BuildPair | BisectionResult:
    """The next pair to boot, or the result so far.

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
                    f"the stored pairs are of another search: pair {len(search.pairs) + 1} compares builds "
                    f"{asked.reference + 1} and {asked.build + 1}, now {question.reference + 1} and "
                    f"{question.build + 1} are due. Begin anew, or bring the builds back"
                )
            question = questions.send(answer)
    except StopIteration as end:
        result: BisectionResult = end.value
        return result
    return question


@define
class _Search:
    builds: int
    effect: float
    pairs: list[tuple[BuildPair, float]] = field(factory=list)
    skipped: set[int] = field(factory=set)
    size: float = 0.0
    sigma: float = 0.0

    def run(self) -> Generator[BuildPair, Answer, BisectionResult]:
        last = self.builds - 1
        outcome = yield from self._confirm(last)
        if outcome is not PairedOutcome.DIFFERENT:
            is_undecided = outcome is PairedOutcome.UNDECIDED
            return BisectionResult(None, (), 0.0, math.expm1(self.size), 0.0, (), len(self.pairs), is_undecided)
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
        yield from self._compare_neighbours(low, high)
        return self._result(low, high)

    def _compare_neighbours(self, low: int, high: int) -> Generator[BuildPair, Answer, None]:
        """Compare builds that no step has chosen while the result is sure: only they tell how builds differ.

        A step takes a build for good or bad, whichever is nearer, so its own differences look smaller than they are.
        """
        compared = {
            0,
            self.builds - 1,
            *self.skipped,
            *(build for asked, _ in self.pairs for build in (asked.reference, asked.build)),
        }
        free = [build for build in range(1, self.builds) if build not in compared]
        for build in sorted(free, key=lambda build: (min(abs(build - low), abs(build - high)), build))[:_NEIGHBOURS]:
            if not self._result(low, high).sure:
                return
            for _ in range(_NEIGHBOUR_PAIRS):
                if (yield from self._pair(0, build)) is None:
                    self.skipped.add(build)
                    break

    def _middle(self, low: int, high: int) -> int | None:
        """The build nearest to the middle that boots; None: none is between."""
        free = [build for build in range(low + 1, high) if build not in self.skipped]
        return min(free, key=lambda build: (abs(2 * build - low - high), build), default=None)

    def _pair(self, reference: int, build: int) -> Generator[BuildPair, Answer, Answer]:
        asked = BuildPair(reference, build)
        answer = yield asked
        if answer is not None:
            self.pairs.append((asked, answer))
        return answer

    def _confirm(self, last: int) -> Generator[BuildPair, Answer, PairedOutcome]:
        plan, differences = PairedPlan(effect=self.effect), list[float]()
        while len(differences) < plan.pairs:
            answer = yield from self._pair(0, last)
            if answer is None:
                raise ConfigurationError("the good or the bad build does not boot: give two builds that do")
            differences.append(answer)
            if plan.look_after(len(differences)) is None:
                continue
            outcome = judge_pairs(differences, plan).outcome
            if outcome is not PairedOutcome.UNDECIDED:
                break
        else:
            outcome = PairedOutcome.UNDECIDED
        values = np.asarray(differences)
        self.size = hodges_lehmann(values)
        self.sigma = max(1e-4, 1.4826 * float(np.median(np.abs(values - np.median(values)))))
        return outcome

    def _is_bad(self, reference: int, build: int, error: float) -> Generator[BuildPair, Answer, bool | None]:
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

    def _result(self, low: int, high: int) -> BisectionResult:
        odds, spread = self._posterior()
        candidates: list[int] = [high]
        # Builds that do not boot lie between: each of them may be the first bad one.
        candidates += range(low + 1, high)
        for build in sorted(odds, key=lambda build: -odds[build]):
            if sum(odds[candidate] for candidate in candidates) >= _SURE:
                break
            if build not in candidates:
                candidates.append(build)
        return BisectionResult(
            high,
            tuple(sorted(candidates)),
            odds[high],
            math.expm1(self.size),
            spread,
            tuple(sorted(self.skipped)),
            len(self.pairs),
        )

    def _posterior(self) -> tuple[dict[int, float], float]:
        """Probability of each build to be the first bad one, and the expected spread of the builds.

        Each build is off by a normal deviate whose deviation is unknown, the good one too, which is in each difference
        with it. The change is unknown, too. All spreads of `_SPREADS` are as likely before.
        """
        differences: dict[BuildPair, list[float]] = {}
        for asked, answer in self.pairs:
            differences.setdefault(asked, []).append(answer)
        values = np.array([hodges_lehmann(np.asarray(answers)) for answers in differences.values()])
        noise = np.diag([self.sigma**2 / len(answers) for answers in differences.values()])
        design = np.zeros((len(differences), self.builds))
        for row, asked in enumerate(differences):
            design[row, asked.build] += 1
            design[row, asked.reference] -= 1
        # Of each first bad build: which differences have the change.
        steps = np.cumsum(design[:, :0:-1], axis=1)[:, ::-1].T
        changed = (_SIZES * self.size) ** 2 * steps[:, None, :, None] * steps[:, None, None, :]
        shares = (np.array(_SPREADS) * self.size) ** 2
        variance = noise + shares[:, None, None] * (design @ design.T) + changed
        halves = np.linalg.solve(variance, np.broadcast_to(values[:, None], (*variance.shape[:-1], 1)))[..., 0]
        logs = -0.5 * (np.linalg.slogdet(variance)[1] + halves @ values)
        odds = np.exp(logs - logs.max()) * np.exp(-np.array(_SPREADS) / _USUAL_SPREAD)
        odds /= odds.sum()
        spread = abs(self.size) * float(odds.sum(axis=0) @ np.array(_SPREADS))
        return {first: float(odds[first - 1].sum()) for first in range(1, self.builds)}, spread
