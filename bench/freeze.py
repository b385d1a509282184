"""Boot times while something is frozen: inside their ±, flagged or refused, but never wrong without a word.

    uv run python bench/freeze.py [--samples 500] [--boards 6] [--seed 1] [--kinds "console server" disk ...]

Simulated boards are booted again and again, each measured by a session of its own as pytest would do it (labgrid's
target, BoardStrategy, BootRun, a results store), through one console server. In each round something stands still for
0.1 to 5 s, from a stage of a board's boot on that was drawn before:

- the console server, or the sessions, or the bench that plays the boards (SIGSTOP; the last makes the boards late);
- the disk: write(2) to a recording blocks;
- the host, suspended: server and sessions stop, CLOCK_MONOTONIC_RAW and CLOCK_MONOTONIC lose the time;
- the host as a virtual machine, paused: all of its clocks lose it. Once so, and once with the wall clock set afterwards;
- those two clocks alone stand still, while the processes go on.

Disk and clocks are frozen by a library that is preloaded (shim/freeze.c; it needs `cc`). The freeze begins when the
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
import json
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from attrs import asdict, frozen
from freeze_judge import ENDS, STAGES, TELLING_BYTES, Judged, TrueBoot, Verdict, judge, true_boots, verdict
from freeze_lab import CLOCKS_BEHIND, KINDS, MACHINE, PATIENCE_S, Answer, FreezeLab, Trigger, freeze_lab

from lab import boards
from lab.boards import BoardType
from lab.virtual.truth import read_truth

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
    dice = random.Random(seed)  # noqa: S311  (freezes, not keys)
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
