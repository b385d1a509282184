"""Boot times while something is frozen: inside their ±, flagged or refused, but never wrong without a word.

    env -C tests uv run python -m support.freeze [--samples 500] [--boards 6] [--seed 1] [--kinds "console server" disk ...]

Simulated boards are booted again and again, each measured by a session of its own as pytest would do it (labgrid's
target, BoardStrategy, BootRun, a results store), through one console server. In each round something stands still for
0.1 to 5 s, from a stage of a board's boot on that was drawn before:

- the console server, or the sessions, or the bench that plays the boards (SIGSTOP; the last makes the boards late);
- the disk: write(2) to a recording blocks;
- the host, suspended: server and sessions stop, CLOCK_MONOTONIC_RAW and CLOCK_MONOTONIC lose the time;
- the host as a virtual machine, paused: all of its clocks lose it. Once so, and once with the wall clock set afterwards;
- those two clocks alone stand still, while the processes go on.

Disk and clocks are frozen by a library that is preloaded (freeze.c; it needs `cc`). The freeze begins when the
console shows the stage's text, so many bytes and so many milliseconds later. All boards of a round are hit, each where
it is. What the sessions report is compared with the boards' truth logs: boot time, power-on time and every stage.
A boot counts as WRONG if one of them is outside its ± and has no flag that says that the time is unsure; the exit status
is 1 then. Two things are counted apart:

- "unseen": a paused virtual machine whose wall clock nobody sets, while the board said little. Then only lines that its
  kernel prints before and after can tell, and there may be none.
- "just beside": by less than --slack-ms, 0 unless it is given. On a host that is busy with other things a stamp is late by a
  millisecond now and then without a trace, frozen or not.
"""

from __future__ import annotations

import argparse
import enum
import itertools
import json
import random
import signal
import sys
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from attrs import asdict, field, frozen

from lab import boards
from lab.boards import BoardType
from lab.console import Chunk, LineTiming, find_moments
from lab.virtual.truth_log import Truth, read_truth
from support.freeze_lab import (
    CLOCKS_BEHIND,
    KINDS,
    MACHINE,
    PATIENCE_S,
    Answer,
    FreezeLab,
    Number,
    Trigger,
    freeze_lab,
)

START, ENDS = "starting_kernel", ("login", "shell")
BOOT_TIME = "boot.time"
AROUND_S = 0.1  # so near to "Starting kernel" and to the prompt a freeze counts as around it
# A flag that says that the time itself may be wrong.
TIME_FLAGS = frozenset({"clock_disagrees", "console_overrun", "uncertain"})
STAGES = ("SPL", "U-Boot", "countdown", "around Starting kernel", "kernel", "around the prompt", "after the prompt")
TELLING_BYTES = (
    512  # of a board, that come too soon when a pause ends: 44 ms of the line, more than a busy host is late
)
BOARD_TYPE = "am62xx_sk"
SHORTEST_S, LONGEST_S = 0.1, 5.0
LOOK_S = 0.05  # between two looks at a truth log
HEADER = ("frozen", "stage", "n", "inside ±", "just beside", "flagged", "refused", "unseen", "WRONG")

# Where a freeze begins: what the console shows, up to how many bytes later, and up to how many seconds after that.
STARTS: dict[str, tuple[bytes, int, float]] = {
    STAGES[0]: (rb"U-Boot SPL 20", 600, 0.02),
    STAGES[1]: (rb"(?<!SPL )U-Boot 20", 600, 0.02),
    STAGES[2]: (rb"Hit any key", 400, 0.02),
    STAGES[3]: (rb"Starting k|bytes read in \d+ ms", 150, 0.01),
    STAGES[4]: (rb"Booting Linux", 12_000, 0.05),
    STAGES[5]: (rb"Reached target .{0,9}Multi-User", 200, 0.02),
    STAGES[6]: (rb"login: ", 0, 0.4),
}


class Verdict(enum.StrEnum):
    """What became of a boot."""

    INSIDE = "inside ±"
    FLAGGED = "flagged"
    REFUSED = "refused"
    BESIDE = "just beside"
    UNSEEN = "unseen"
    WRONG = "WRONG"


@frozen
class Judged:
    """A number beside the truth. `slack_s`: the truth is not known better, since the line's process was held up."""

    number: Number
    true_s: float
    slack_s: float

    @property
    def excess_s(self) -> float:
        """How far it is outside its ±; negative: inside."""
        return abs(self.number.value_s - self.true_s) - self.number.uncertainty_s - self.slack_s

    @property
    def flagged(self) -> bool:
        """Whether it says itself that it may be wrong."""
        return bool(self.number.flags & TIME_FLAGS)

    def wrong(self, slack_s: float = 0.0) -> bool:
        """Outside its ± by more than that, without a word."""
        return self.excess_s > slack_s and not self.flagged


@frozen
class Marker:
    """When a moment's last byte left the UART, between `t_ns` and so much later."""

    name: str
    t_ns: int
    slack_ns: int = 0


@frozen
class TrueBoot:
    """One boot as it was.

    Attributes:
        on_ns: when the power came.
        markers: the first of each moment, in the order of the board type.
    """

    on_ns: int
    markers: tuple[Marker, ...] = field(converter=tuple)
    _truth: Truth = field(repr=False)

    def said_bytes(self, begin_ns: int, end_ns: int) -> int:
        """How much left the UART in that time."""
        positions, left_ns = range(len(self._truth.data)), self._truth.left_ns
        return bisect_left(positions, end_ns, key=left_ns) - bisect_left(positions, begin_ns, key=left_ns)

    def find(self, *names: str) -> Marker | None:
        """The first that has one of these names."""
        return next((marker for marker in self.markers if marker.name in names), None)

    def stage(self, t_ns: int) -> str:
        """Where the boot was then, one of STAGES."""
        around_ns = round(AROUND_S * 1e9)
        start, prompt = self.find(START), self.find(*ENDS)
        if prompt is not None and t_ns > prompt.t_ns + around_ns:
            return STAGES[6]
        if prompt is not None and t_ns > prompt.t_ns - around_ns:
            return STAGES[5]
        if start is not None and abs(t_ns - start.t_ns) <= around_ns:
            return STAGES[3]
        if start is not None and t_ns > start.t_ns:
            return STAGES[4]
        uboot, countdown = self.find("uboot"), self.find("autoboot")
        if countdown is not None and t_ns > countdown.t_ns:
            return STAGES[2]
        return STAGES[1] if uboot is not None and t_ns > uboot.t_ns else STAGES[0]


def true_boots(board: BoardType, truth: Truth) -> list[TrueBoot]:
    """Every power cycle of a truth log, in order."""
    ons = [event.t_ns for event in truth.power if event.state == "on"]
    # When the bytes came is asked of the truth below: here it is only where in the stream the patterns match.
    places = find_moments([Chunk(0, 0, truth.data)], board.moments, LineTiming(board.console.speed_bd))
    markers = [Marker(m.name, truth.left_ns(m.position - 1), truth.delay_ns(m.position - 1)) for m in places]
    order = [pattern.name for pattern in board.moments]
    boots = []
    for on_ns, end_ns in itertools.pairwise([*ons, 1 << 62]):
        first: dict[str, Marker] = {}
        for marker in markers:
            if on_ns <= marker.t_ns < end_ns:
                first.setdefault(marker.name, marker)
        boots.append(TrueBoot(on_ns, tuple(sorted(first.values(), key=lambda m: order.index(m.name))), truth))
    return boots


def judge(board: BoardType, boot: TrueBoot, numbers: Sequence[Number]) -> list[Judged]:
    """Each number of the boot beside the truth."""
    return [_judged(board, boot, number) for number in numbers]


def _judged(board: BoardType, boot: TrueBoot, number: Number) -> Judged:
    power, end = Marker("power", boot.on_ns), boot.find(*ENDS)
    begin: Marker | None = power
    if number.metric == BOOT_TIME:
        begin = boot.find(START)
    elif number.metric == "boot.stage":
        came = [pattern for pattern in board.moments if pattern.stage and boot.find(pattern.name)]
        place = [pattern.stage for pattern in came].index(number.stage)
        begin, end = (boot.find(came[place - 1].name) if place else power), boot.find(came[place].name)
    assert begin is not None, number
    assert end is not None, number
    return Judged(number, (end.t_ns - begin.t_ns) / 1e9, max(begin.slack_ns, end.slack_ns) / 1e9)


def verdict(judged: Sequence[Judged], slack_s: float, *, seen: bool) -> Verdict:
    """Of a boot that gave these numbers: the worst of them counts. Flags count where they are needed, and on the boot time.

    Args:
        slack_s: what is outside its ± by less is just beside it. seen: something could have told of what happened.
    """
    if any(one.wrong(slack_s) for one in judged):
        return Verdict.WRONG if seen else Verdict.UNSEEN
    if any(one.wrong() for one in judged):
        return Verdict.BESIDE
    said = any(one.flagged and (one.excess_s > 0 or one.number.metric == BOOT_TIME) for one in judged)
    return Verdict.FLAGGED if said else Verdict.INSIDE


@frozen
class Plan:
    """One round: what is frozen, for how long, from which stage of which board on."""

    seed: int
    kind: str
    stage: str
    seconds: float
    trigger: Trigger


@frozen
class Sample:
    """One boot of one board in a round.

    Attributes:
        stage: where it was when the freeze began.
        said_bytes: by the board during the freeze.
        outcome: "ok", or the class of its failure.
    """

    board: str
    plan: Plan
    stage: str
    said_bytes: int
    outcome: str
    answer: Answer
    judged: tuple[Judged, ...]
    slack_s: float

    @property
    def verdict(self) -> Verdict:
        """What became of it."""
        if self.outcome != "ok":
            return Verdict.REFUSED
        seen = self.plan.kind != MACHINE or self.said_bytes >= TELLING_BYTES
        return verdict(self.judged, self.slack_s, seen=seen)

    def words(self) -> str:
        """What is wrong with it."""
        wrong = [
            f"{one.number.metric} {one.number.stage} {one.number.value_s:.4f} ± {one.number.uncertainty_s:.4f} s, "
            f"in truth {one.true_s:.4f} s"
            for one in self.judged
            if one.wrong(self.slack_s)
        ]
        return f"seed {self.plan.seed}: {self.plan.kind}, {self.plan.seconds:.2f} s, {self.stage}: {'; '.join(wrong)}"


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--boards", type=int, default=6, help="how many boot at once")
    parser.add_argument(
        "--time-scale", type=float, default=0.15, help="factor on what a board waits for besides its UART"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the first round; the others count on")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--slack-ms", type=float, default=0.0, help="so far outside its ± a number is just beside it")
    parser.add_argument("--json", type=Path, help="write every sample to this file")
    parser.add_argument("--keep", type=Path, help="copy the recordings and truth logs of a WRONG round to this folder")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whatever ends it, it leaves nothing behind
    samples: list[Sample] = []
    board_type = boards.load(BOARD_TYPE)
    with freeze_lab(options.boards, BOARD_TYPE, options.time_scale, options.seed) as lab:
        seed = options.seed
        while len(samples) < options.samples:
            plan = draw(seed, options.kinds, options.boards)
            found = boot(lab, board_type, plan, options.slack_ms / 1e3)
            samples += found
            if options.keep and any(sample.verdict is Verdict.WRONG for sample in found):
                lab.keep(options.keep / f"seed-{seed}")
            seed += 1
            print(_progress(plan, found, len(samples)), file=sys.stderr, flush=True)
    samples = samples[: options.samples]
    if options.json:
        options.json.write_text(json.dumps([_described(sample) for sample in samples], indent=1), encoding="utf-8")
    return report(samples, seeds=(options.seed, seed - 1))


def draw(seed: int, kinds: Sequence[str], board_count: int) -> Plan:
    """The round with this seed. Kinds and stages take turns, so that each pair of them comes."""
    dice = random.Random(seed)
    kind = kinds[seed % len(kinds)]
    stage = STAGES[(seed + seed // len(kinds)) % len(STAGES)]
    text, more_bytes, delay_s = STARTS[stage]
    trigger = Trigger(dice.randrange(board_count), text, dice.randint(0, more_bytes), dice.uniform(0, delay_s))
    seconds = SHORTEST_S * (LONGEST_S / SHORTEST_S) ** dice.random()
    return Plan(seed, kind, stage, seconds, trigger)


def boot(lab: FreezeLab, board_type: BoardType, plan: Plan, slack_s: float) -> list[Sample]:
    """Boot all boards with this freeze; nothing if it did not come."""
    frozen, answers = lab.boot(plan.kind, plan.seconds, plan.trigger)
    if plan.kind in CLOCKS_BEHIND:
        lab.renew()
    if frozen is None:
        return []
    samples = []
    for session, answer in zip(lab.sessions, answers, strict=True):
        last = _true_boot(board_type, Path(session.board.truth), ended=answer.outcome == "ok")
        judged = tuple(judge(board_type, last, answer.numbers))
        stage, said_bytes = last.stage(frozen.begin_ns), last.said_bytes(frozen.begin_ns, frozen.end_ns)
        name, outcome = session.board.name, answer.outcome
        samples.append(Sample(name, plan, stage, said_bytes, outcome, answer, judged, slack_s))
    return samples


def _true_boot(board_type: BoardType, path: Path, *, ended: bool) -> TrueBoot:
    """The last boot of a truth log, which the bench writes every tenth of a second; `ended`: it came to its prompt."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        last = true_boots(board_type, read_truth(path))[-1]
        if not ended or last.find(*ENDS):
            return last
        assert time.monotonic() < deadline, f"{path}: a prompt was measured, and none was printed"
        time.sleep(LOOK_S)


def report(samples: Sequence[Sample], seeds: tuple[int, int]) -> int:
    """Print the table; the exit status."""
    print("| " + " | ".join(HEADER) + " |")
    print("|" + "---|" * len(HEADER))
    for kind in KINDS:
        for stage in STAGES:
            here = [sample for sample in samples if sample.plan.kind == kind and sample.stage == stage]
            if here:
                print("| " + " | ".join(_row(kind, stage, here)) + " |")
    print("| " + " | ".join(_row("all", "", samples)) + " |")
    wrong = [sample for sample in samples if sample.verdict is Verdict.WRONG]
    for sample in wrong:
        print(f"WRONG: {sample.words()}")
    print(f"seeds {seeds[0]} to {seeds[1]}")
    return 1 if wrong or not samples else 0


def _row(kind: str, stage: str, samples: Iterable[Sample]) -> list[str]:
    found = list(samples)
    counts = Counter(sample.verdict for sample in found)
    refused = Counter(sample.outcome for sample in found if sample.verdict is Verdict.REFUSED)
    classes = ", ".join(f"{number} {name}" for name, number in refused.most_common()) or "0"
    cells = [
        kind,
        stage,
        str(len(found)),
        *(str(counts[one]) for one in (Verdict.INSIDE, Verdict.BESIDE, Verdict.FLAGGED)),
    ]
    return [*cells, classes, *(str(counts[one]) for one in (Verdict.UNSEEN, Verdict.WRONG))]


def _progress(plan: Plan, samples: Sequence[Sample], count: int) -> str:
    verdicts = ", ".join(
        f"{sample.stage}: {sample.outcome if sample.verdict is Verdict.REFUSED else sample.verdict}"
        for sample in samples
    )
    wrong = "".join(f"\n    WRONG {sample.words()}" for sample in samples if sample.verdict is Verdict.WRONG)
    return (
        f"{count} (seed {plan.seed}) {plan.kind} {plan.seconds:.2f} s: {verdicts or 'it did not come to that'}{wrong}"
    )


def _described(sample: Sample) -> dict[str, object]:
    numbers = [
        {**asdict(one.number), "flags": sorted(one.number.flags), "true_s": one.true_s, "excess_s": one.excess_s}
        for one in sample.judged
    ]
    return {
        "seed": sample.plan.seed,
        "kind": sample.plan.kind,
        "seconds": sample.plan.seconds,
        "board": sample.board,
        "stage": sample.stage,
        "said_bytes": sample.said_bytes,
        "verdict": str(sample.verdict),
        "outcome": sample.outcome,
        "message": sample.answer.message,
        "clocks": sample.answer.clocks,
        "numbers": numbers,
    }


if __name__ == "__main__":
    sys.exit(main())
