"""Many cases, on all processors that we may use."""

from __future__ import annotations

import enum
import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from random import Random
from threading import Thread

from attrs import asdict, evolve, frozen
from torture_boot import DOUBTS, POWER, GoodBoot, Mutated, answer_of, events
from torture_damage import mutate

from lab.benchmarks.boot.crosscheck import STEP_NS, BoardFacts, CrossCheck, contradictions
from lab.benchmarks.boot.timeline import NO_LINE, TimeLineJudgement
from lab.boards import NORMAL
from lab.metrics import SampleRecord
from lab.metrics.catalogue import BOOT_POWER_ON, HEADLINE_NAMES
from lab.run.rewatch import Rewatcher, RewatchResult

ZERO_NS = 200_000_000  # from "Starting kernel" to the kernel's time 0
GETTY_NS = 1_050_000_000  # from agetty's start to its prompt: it sleeps for a second
WAY_NS = (12_000_000, 50_000_000)  # of the question and its answer over the line
LATE_NS = (500_000, 3_000_000)  # of them behind the board's look at its clock
OTHERS = 5  # boots of the run
TOGETHER = 50  # cases that a process takes at a time


@frozen
class Lot:
    """Cases of one kind with consecutive seeds."""

    kind: str
    seeds: range


def lots(kinds: Sequence[str], count: int, seed: int) -> list[Lot]:
    """`count` cases of each kind, in lots that are done together."""
    stop = seed + count
    return [
        Lot(kind, range(first, min(first + TOGETHER, stop))) for kind in kinds for first in range(seed, stop, TOGETHER)
    ]


def run(
    boot: GoodBoot, todo: Sequence[Lot], processes: int = 0, done: Callable[[int], None] | None = None
) -> list[Case]:
    """Try all cases, in their order.

    Args:
        processes: how many at a time; 0: one for each processor; 1: in this one.
        done: is told after each lot how many cases it had.
    """
    cases: list[Case] = []
    for tried in _tried(boot, todo, processes or len(os.sched_getaffinity(0))):
        cases += tried
        if done is not None:
            done(len(tried))
    return cases


def _tried(boot: GoodBoot, todo: Sequence[Lot], processes: int) -> Iterator[list[Case]]:
    if processes == 1:
        yield from (_try(boot, lot) for lot in todo)
        return
    waiting = iter(todo)
    with ProcessPoolExecutor(processes, mp_context=get_context("forkserver"), initializer=_end_with_parent) as pool:
        running = [pool.submit(_try, boot, lot) for lot in islice(waiting, 2 * processes)]
        while running:
            yield running.pop(0).result()
            running += [pool.submit(_try, boot, lot) for lot in islice(waiting, 1)]


def _end_with_parent() -> None:
    """Whoever kills the command ends its processes too: they would wait for more for ever."""

    def watch(sentinel: int) -> None:
        wait([sentinel])
        os._exit(1)

    parent = parent_process()
    if parent is not None:
        Thread(target=watch, args=(parent.sentinel,), daemon=True).start()


def _try(boot: GoodBoot, lot: Lot) -> list[Case]:
    watcher = rewatcher(boot)
    return [try_case(boot, watcher, lot.kind, seed) for seed in lot.seeds]


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
    case = Case(kind, seed, mutated.what, Outcome.RIGHT)
    return judge(boot, case, mutated.truth_ns, _cross_checked(boot, mutated, result, Random(f"{kind}:{seed}")))  # noqa: S311 - not secret


def _cross_checked(boot: GoodBoot, mutated: Mutated, result: RewatchResult, rng: Random) -> RewatchResult:
    """The result of a boot as the board's own clock and the run's other boots leave it.

    The board says when its kernel and its getty were started, as well as a shell at its console can.
    """
    started_ns, end_ns = mutated.kernel_ns or mutated.truth_ns.get(boot.start), mutated.truth_ns.get(boot.end)
    if result.error is not None or result.prompt is None or started_ns is None or end_ns is None:
        return result

    def check(start_ns: int, prompt_ns: int) -> CrossCheck:
        zero_ns, way_ns, late_ns = start_ns + ZERO_NS, rng.randint(*WAY_NS), rng.randint(*LATE_NS)
        getty_ns = (prompt_ns - GETTY_NS - zero_ns) // STEP_NS * STEP_NS
        latest_ns = zero_ns + late_ns + rng.randint(0, STEP_NS)
        return CrossCheck(BoardFacts(getty_ns=getty_ns), (latest_ns - way_ns - STEP_NS, latest_ns))

    checked = check(started_ns, end_ns)
    refuted = next(contradictions(checked, result.start, None, result.prompt, []), None)
    if refuted is not None:
        return evolve(result, error=refuted)
    begin, end = (evolve(result.prompt, t_ns=t_ns) for t_ns in (started_ns, end_ns))
    others = [check(started_ns, end_ns).time_line(begin, end, NO_LINE) for _ in range(OTHERS)]
    line = checked.time_line(result.start, result.prompt, result.line)
    judgement = TimeLineJudgement.of(evolve(line, answer=None), others, result.samples[0].flags)
    moments = () if result.start is None else (result.start,)
    return evolve(result, samples=tuple(judgement.covered(result.samples, moments, result.prompt.position)))


def _watched(boot: GoodBoot, watcher: Rewatcher, mutated: Mutated) -> RewatchResult:
    """A mutation as a live run would see it; at its prompt the board answers a carriage return."""
    since_ns = mutated.truth_ns.get(boot.end)
    answer = None if since_ns is None else answer_of(boot.prompt, since_ns)
    return watcher.rewatch(mutated.events, answer)


def judge(boot: GoodBoot, case: Case, truth_ns: Mapping[str, int], result: RewatchResult) -> Case:
    """The case with its outcome."""
    if result.error is not None:
        return evolve(case, outcome=Outcome.REFUSED, failure=result.error.failure, message=str(result.error))
    doubted = any(sample.flags & DOUBTS for sample in result.samples if sample.metric in HEADLINE_NAMES)
    flags = {str(flag) for sample in result.samples if sample.metric in HEADLINE_NAMES for flag in sample.flags}
    wrong = [found for sample in result.samples if (found := _wrong(boot, truth_ns, sample)) is not None]
    case = evolve(case, flags=tuple(sorted(flags)))
    if wrong:
        return evolve(case, outcome=Outcome.WRONG, wrong=max(wrong, key=lambda one: one.beyond_s))
    return evolve(case, outcome=Outcome.FLAGGED if doubted else Outcome.RIGHT)


def _wrong(boot: GoodBoot, truth_ns: Mapping[str, int], sample: SampleRecord) -> Wrong | None:
    if sample.flags & DOUBTS:
        return None
    stage = sample.params.get("stage", "")
    first, last = _ends(boot, sample)
    its_own = (
        sample.params.get("flow", NORMAL) == boot.flow
    )  # as a number of another flow it is compared with the wrong ones
    is_known = its_own and first in truth_ns and last in truth_ns
    truth_s = (truth_ns[last] - truth_ns[first]) / 1e9 if is_known else None
    if truth_s is not None and abs(sample.value - truth_s) <= sample.uncertainty + ROUNDING_S:
        return None
    name = f"{sample.metric} {stage}".strip()
    return Wrong(name, sample.value, sample.uncertainty, truth_s)


def _ends(boot: GoodBoot, sample: SampleRecord) -> tuple[str, str]:
    """The moments between which a number is."""
    if sample.metric in HEADLINE_NAMES:
        return boot.start, boot.end
    if sample.metric == BOOT_POWER_ON.name:
        return POWER, boot.end
    titles = {pattern.name: pattern.stage for pattern in boot.board.flow(boot.flow) if pattern.stage}
    staged = [POWER, *(name for name in sorted(boot.at, key=boot.at.__getitem__) if name in titles)]
    for first, last in itertools.pairwise(staged):
        if titles[last] == sample.params["stage"]:
            return first, last
    return POWER, ""


SHOWN = 10  # wrong cases in the table; all of them stand in the document
WHAT_CHARACTERS = 160
_HEADS = [str(outcome).upper() if outcome is Outcome.WRONG else str(outcome) for outcome in Outcome]


def lines(boot: GoodBoot, cases: Sequence[Case], seed: int) -> list[str]:
    """The table, and the worst cases."""
    number = boot.number
    kinds = list(dict.fromkeys(case.kind for case in cases))
    count = max(Counter(case.kind for case in cases).values(), default=0)
    head = (
        f"{boot.board.name} from {boot.medium}, {number.value:.4f} s ± {number.uncertainty:.4f} s; "
        f"seeds {seed} to {seed + count - 1} of each kind"
    )
    rows = [
        ["kind", "cases", *_HEADS],
        *(_row(kind, [case for case in cases if case.kind == kind]) for kind in kinds),
    ]
    rows.append(_row("all", cases))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    table = [
        "  ".join(f"{cell:{'>' if column else '<'}{widths[column]}}" for column, cell in enumerate(row))
        for row in rows
    ]
    refused = Counter(case.failure for case in cases if case.failure).most_common()
    flagged = Counter(flag for case in cases if case.outcome is Outcome.FLAGGED for flag in case.flags).most_common()
    found = [head, "", *table, ""]
    found += [f"refused as: {', '.join(f'{name} {times}' for name, times in refused)}"] if refused else []
    found += [f"flagged with: {', '.join(f'{name} {times}' for name, times in flagged)}"] if flagged else []
    return [*found, *_worst(cases)]


def _row(name: str, cases: Sequence[Case]) -> list[str]:
    by = Counter(case.outcome for case in cases)
    return [name, str(len(cases)), *(str(by[outcome]) for outcome in Outcome)]


def _worst(cases: Sequence[Case]) -> list[str]:
    wrong = sorted((case for case in cases if case.outcome is Outcome.WRONG), key=_badness, reverse=True)
    if not wrong:
        return ["no number is wrong beyond its ± without a flag"]
    found = ["", f"WRONG, the worst of {len(wrong)} (repeat one with --only KIND:SEED):"]
    return [*found, *(f"  {line}" for case in wrong[:SHOWN] for line in case_lines(case))]


def _badness(case: Case) -> float:
    return float("inf") if case.wrong is None else case.wrong.beyond_s


def case_lines(case: Case) -> list[str]:
    """One case in words."""
    what = case.what if len(case.what) <= WHAT_CHARACTERS else case.what[: WHAT_CHARACTERS - 1] + "…"
    match case.outcome:
        case Outcome.WRONG:
            said = case.message if case.wrong is None else f"WRONG: {wrong_text(case.wrong)}"
        case Outcome.REFUSED:
            said = f"refused: {case.failure}: {case.message}"
        case _:
            said = " ".join([str(case.outcome), *case.flags])
    return [f"{case.name}  {said}", f"    {what}"]


def wrong_text(wrong: Wrong) -> str:
    """A wrong number beside the truth."""
    truth = "no number is right" if wrong.truth_s is None else f"right is {wrong.truth_s:.4f} s"
    return f"{wrong.number} {wrong.value_s:.4f} s ± {wrong.uncertainty_s:.4f} s; {truth}"


def document(boot: GoodBoot, cases: Sequence[Case], seed: int) -> dict[str, object]:
    """For JSON: the counts, and every case that is wrong."""
    kinds = list(dict.fromkeys(case.kind for case in cases))
    counts = {kind: Counter(str(case.outcome) for case in cases if case.kind == kind) for kind in kinds}
    refused = {kind: Counter(case.failure for case in cases if case.kind == kind and case.failure) for kind in kinds}
    return {
        "board": boot.board.name,
        "medium": boot.medium,
        "boot_time_s": boot.number.value,
        "uncertainty_s": boot.number.uncertainty,
        "seed": seed,
        "kinds": {
            kind: {
                "cases": counts[kind].total(),
                **{str(o): counts[kind][o] for o in Outcome},
                "failures": dict(refused[kind]),
            }
            for kind in kinds
        },
        "cases": [case_document(case) for case in cases if case.outcome is Outcome.WRONG],
    }


def case_document(case: Case) -> dict[str, object]:
    """One case for JSON."""
    return {"name": case.name, **asdict(case)}
