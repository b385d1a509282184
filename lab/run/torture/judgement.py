"""What a mutation made of a boot's numbers: right, flagged, refused, or wrong."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Mapping

from attrs import evolve, frozen

from lab.benchmarks.boot import BootSample
from lab.boards import NORMAL
from lab.metrics.catalogue import BOOT_POWER_ON, HEADLINES
from lab.run.rewatch import Rewatched, Rewatcher
from lab.run.torture.boot import DOUBTS, POWER, GoodBoot, Mutated, answer_of
from lab.run.torture.kinds import mutate
from lab.run.torture.tape import events

ROUNDING_S = 2e-6  # of a byte's time to nanoseconds, over the bytes of a read


class Outcome(enum.StrEnum):
    """How a case ended; the best first."""

    RIGHT = "right"
    FLAGGED = "flagged"
    REFUSED = "refused"
    WRONG = "wrong"


@frozen
class Wrong:
    """A number that is wrong beyond its ±, and does not say so.

    Attributes:
        number: the metric, of a stage with its title.
        truth_s: None where no number is right.
    """

    number: str
    value_s: float
    uncertainty_s: float
    truth_s: float | None

    @property
    def beyond_s(self) -> float:
        """By how much it is beyond its ±."""
        error_s = self.value_s if self.truth_s is None else abs(self.value_s - self.truth_s)
        return error_s - self.uncertainty_s


@frozen
class Case:
    """A mutation, and what became of it.

    Attributes:
        failure: the class of a boot that was refused.
        wrong: the worst number of a case that is wrong; None also where recognition itself broke down (`message`).
        flags: of the boot time.
        message: of the refusal.
    """

    kind: str
    seed: int
    what: str
    outcome: Outcome
    failure: str = ""
    flags: tuple[str, ...] = ()
    wrong: Wrong | None = None
    message: str = ""

    @property
    def name(self) -> str:
        """What repeats it."""
        return f"{self.kind}:{self.seed}"


def rewatcher(boot: GoodBoot) -> Rewatcher:
    """Watches mutations of this boot."""
    found = Rewatcher(boot.board, boot.medium, boot.power, boot.timing)
    found.know(events(boot.tape))
    return found


def try_case(boot: GoodBoot, watcher: Rewatcher, kind: str, seed: int) -> Case:
    """Mutate a boot, watch it, and judge what comes out."""
    mutated = mutate(boot, kind, seed)
    try:
        result = _watched(boot, watcher, mutated)
    except Exception as error:  # noqa: BLE001  (whatever it is: a console's bytes must not break recognition)
        said = f"recognition broke down: {type(error).__name__}: {error}"
        return Case(kind, seed, mutated.what, Outcome.WRONG, message=said)
    return judge(boot, Case(kind, seed, mutated.what, Outcome.RIGHT), mutated.truth_ns, result)


def _watched(boot: GoodBoot, watcher: Rewatcher, mutated: Mutated) -> Rewatched:
    """A mutation as a live run would see it; at its prompt the board answers a carriage return."""
    since_ns = mutated.truth_ns.get(boot.end)
    answer = None if since_ns is None else answer_of(boot.prompt, since_ns)
    return watcher.rewatch(mutated.events, answer)


def judge(boot: GoodBoot, case: Case, truth_ns: Mapping[str, int], result: Rewatched) -> Case:
    """The case with its outcome."""
    if result.error is not None:
        return evolve(case, outcome=Outcome.REFUSED, failure=result.error.failure, message=str(result.error))
    doubted = any(sample.sample.flags & DOUBTS for sample in result.samples if sample.metric in HEADLINES)
    flags = {str(flag) for sample in result.samples if sample.metric in HEADLINES for flag in sample.sample.flags}
    wrong = [found for sample in result.samples if (found := _wrong(boot, truth_ns, sample)) is not None]
    case = evolve(case, flags=tuple(sorted(flags)))
    if wrong:
        return evolve(case, outcome=Outcome.WRONG, wrong=max(wrong, key=lambda one: one.beyond_s))
    return evolve(case, outcome=Outcome.FLAGGED if doubted else Outcome.RIGHT)


def _wrong(boot: GoodBoot, truth_ns: Mapping[str, int], sample: BootSample) -> Wrong | None:
    reading = sample.sample
    if reading.flags & DOUBTS:
        return None
    stage = sample.params.get("stage", "")
    first, last = _ends(boot, sample)
    its_own = (
        sample.params.get("flow", NORMAL) == boot.flow
    )  # as a number of another flow it is compared with the wrong ones
    is_known = its_own and first in truth_ns and last in truth_ns
    truth_s = (truth_ns[last] - truth_ns[first]) / 1e9 if is_known else None
    if truth_s is not None and abs(reading.value - truth_s) <= reading.uncertainty + ROUNDING_S:
        return None
    name = f"{sample.metric.name} {stage}".strip()
    return Wrong(name, reading.value, reading.uncertainty, truth_s)


def _ends(boot: GoodBoot, sample: BootSample) -> tuple[str, str]:
    """The moments between which a number is."""
    if sample.metric in HEADLINES:
        return boot.start, boot.end
    if sample.metric is BOOT_POWER_ON:
        return POWER, boot.end
    titles = {pattern.name: pattern.stage for pattern in boot.board.flow(boot.flow) if pattern.stage}
    staged = [POWER, *(name for name in sorted(boot.at, key=boot.at.__getitem__) if name in titles)]
    for first, last in itertools.pairwise(staged):
        if titles[last] == sample.params["stage"]:
            return first, last
    return POWER, ""
