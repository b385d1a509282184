"""What a campaign found, for people and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from attrs import asdict

from lab.run.torture.boot import GoodBoot
from lab.run.torture.judgement import Case, Outcome, Wrong

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
