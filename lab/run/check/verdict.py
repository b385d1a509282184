"""The verdict of a board type on a log, with remedies."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from typing import Final

from attrs import asdict, field, frozen

from lab.benchmarks.boot import ENDS
from lab.benchmarks.boot.watch import CR_ONLY
from lab.boards import NORMAL
from lab.run.check.findings import AUTOMATIC, RESET, UNSEEN, Findings, FoundMoment, KnownLine
from lab.terminal import bad, table

# Lines that nearly are a moment, on any board: a type whose pattern finds none has the wrong one.
NEARLY: Final = {
    "spl": re.compile(r"U-Boot SPL \S"),
    "tfa": re.compile(r"\bBL31: v"),
    "uboot": re.compile(r"^\W*U-Boot 20"),
    "starting_kernel": re.compile(r"(?i)^\W*starting kernel"),
    "login": re.compile(r"^\W*[\w.-]+ login:"),
}
# A live run's message for a log that just ends.
ENDS_EARLY: Final = frozenset({"too_slow", "stopped_at_uboot", "silent"})
HANGS: Final = "hang_"


class Fit(enum.StrEnum):
    """The degree of a board type's fit."""

    WHOLE = "fits"
    PART = "fits in part"
    NOT = "does not fit"


@frozen
class Reason:
    """A reason against a full fit.

    Attributes:
        todo: remedy; empty: none.
    """

    fit: Fit
    why: str
    todo: str = ""


@frozen
class LogVerdict:
    """The verdict on a log."""

    reasons: tuple[Reason, ...] = field(default=())

    @property
    def fit(self) -> Fit:
        """The worst fit of its reasons."""
        found = {reason.fit for reason in self.reasons}
        return next((fit for fit in (Fit.NOT, Fit.PART) if fit in found), Fit.WHOLE)


def judge(findings: Findings) -> LogVerdict:
    """Judge a log."""
    reasons = list(_reasons(findings))
    if not reasons and findings.result.error is not None:
        reasons = [Reason(Fit.NOT, str(findings.result.error))]
    worst = LogVerdict(tuple(reasons)).fit
    return LogVerdict(tuple(reason for reason in reasons if reason.fit is worst))


def nearly(findings: Findings, name: str) -> int:
    """Number of the last line that nearly is this moment; 0: none."""
    pattern = NEARLY.get(name)
    if pattern is None:
        return 0
    numbers = range(len(findings.log.lines), 0, -1)
    return next((number for number in numbers if pattern.search(findings.log.text(number))), 0)


def _reasons(findings: Findings) -> Iterator[Reason]:
    error = findings.result.error
    failure = error.failure if error else ""
    if len(findings.log.lines) == 1 and findings.log.lines[0].strip(b"\r").count(b"\r") > 1:
        yield Reason(Fit.NOT, CR_ONLY)
        return
    if (number := _coloured_prompt(findings)) and not findings.prompts:
        yield Reason(
            Fit.NOT,
            f"line {number}: the prompt has terminal sequences in it, e.g. colours",
            r"Let the pattern of `login` in `moments` allow them: `(\x1b\[[0-9;]*m)*` between its parts",
        )
        return
    died = next((known for known in findings.failures if known.means == failure), None)
    if failure == "rom_no_medium":
        yield Reason(Fit.PART, f"it is a boot without a medium, as the type's `rom` knows it: {error}")
    elif not any(found.lines for found in findings.moments):
        yield Reason(
            Fit.NOT,
            "none of the type's moments is in it",
            "Is it the log of another board (lab boards), or no boot? Else mend the patterns of `moments`",
        )
    else:
        yield from _of_evidence(findings)
        yield from _of_flows(findings, failure)
        if died is not None:
            yield Reason(
                Fit.PART,
                f"the boot failed: {died.means}, line {died.line} {died.text!r}; up to there it fits",
                "Check a log that reaches the prompt as well",
            )
        elif error is not None and not findings.prompts:
            yield from _of_the_end(findings, failure, str(error))
        elif error is not None:
            yield from _of_a_run(findings, failure, str(error))


def _coloured_prompt(findings: Findings) -> int:
    """Number of the last line that is a prompt without its terminal sequences; 0: none."""
    ends = [found.pattern.regex for found in findings.moments if found.pattern.name in ENDS]
    for number in range(len(findings.log.lines), 0, -1):
        line = findings.log.lines[number - 1]
        text = UNSEEN.sub("", line.decode("latin-1"))
        if b"\x1b" in line and any(re.search(end, text) for end in ends):
            return number
    return 0


def _of_evidence(findings: Findings) -> Iterator[Reason]:
    for witness in findings.witnesses:
        if witness.confirmed and not witness.medium:
            yield Reason(
                Fit.NOT,
                f"line {witness.line}: {witness.source} says {witness.said!r}, and the type knows no such medium",
                f"If the board is to boot from there, add the word to `media` of the evidence {witness.source!r}",
            )
    if len(findings.media) > 1:
        named = ", ".join(f"{w.source} names {w.medium}" for w in findings.witnesses if w.confirmed and w.medium)
        yield Reason(
            Fit.NOT,
            f"a mixed boot: {named}",
            "No run accepts it: see where U-Boot's environment loads Linux from, and the kernel's root=. If the board "
            "booted from one medium all the same, mend `media` of the `evidence`",
        )


def _of_flows(findings: Findings, failure: str) -> Iterator[Reason]:
    often = findings.too_often
    if failure == RESET and not any(known.means == RESET for known in findings.failures):
        text = ", ".join(f"{found.pattern.name} {len(found.lines)} × (lines {_list(found.lines)})" for found in often)
        yield Reason(
            Fit.NOT,
            f"it looks like a reset: {text or findings.result.error}",
            "If the log holds several boots, cut one out. If one healthy boot prints it that often, mend `times` in "
            "`moments`, or give the type a `planned_reset`",
        )
        return
    if not findings.flow:
        text = "; ".join(f"{name}: {candidate.why_not}" for name, candidate in findings.flows.items())
        yield Reason(Fit.NOT, f"it is none of the type's flows ({text})", _mend_moments(findings))
        return
    before = findings.flows[findings.way].before
    wrong = [f"{name} (line {line})" for name in before if (line := nearly(findings, name))]
    if wrong:
        yield Reason(Fit.NOT, f"not found, though nearly there: {', '.join(wrong)}", _mend_moments(findings))
    elif before:
        yield Reason(Fit.PART, f"the log begins late: {', '.join(before)} would have come before", "Log from power on")


def _mend_moments(findings: Findings) -> str:
    hints = [
        f"line {line} nearly is {found.pattern.name}"
        for found in findings.moments
        if not found.lines and (line := nearly(findings, found.pattern.name))
    ]
    also = f" ({'; '.join(hints)})" if hints else ""
    lines = {found.pattern.name: found.lines for found in findings.moments}
    if lines.get("sbl") and lines.get("tfa") and not lines.get("uboot") and findings.prompts:
        return (
            "SBL seems to have started Linux itself: describe that as a flow, `[flows.sbl_linux]` with the moments "
            "sbl, tfa and login, "
            'and `start = "tfa"`'
        )
    return f"Mend `pattern` or `required` in `moments`{also}, or describe this way to boot as a flow: `[flows.NAME]`"


def _of_the_end(findings: Findings, failure: str, text: str) -> Iterator[Reason]:
    """The reasons of a missing prompt."""
    line = nearly(findings, "login")
    last = max((number for found in findings.moments for number in found.lines), default=0)
    if line > last:
        yield Reason(
            Fit.NOT,
            f"line {line} looks like a prompt that the type does not know: {findings.log.text(line)!r}",
            "Mend the pattern of `login` in `moments`, and `login` and `shell` in `[prompts]`",
        )
    elif failure.startswith(HANGS) or failure in ENDS_EARLY:
        name = next(found.pattern.name for found in findings.moments if last in found.lines)
        yield Reason(
            Fit.PART,
            f"it fits so far; its last moment is {name} (line {last} of {len(findings.log.lines)}), and it does not "
            "reach the prompt",
            "Check a log that does",
        )
    elif failure != RESET:
        yield Reason(Fit.NOT, text)


def _of_a_run(findings: Findings, failure: str, text: str) -> Iterator[Reason]:
    """The reason of a failure after the prompt."""
    number = next((n for n in range(1, len(findings.log.lines) + 1) if findings.log.text(n).endswith(AUTOMATIC)), 0)
    if number:
        yield Reason(
            Fit.NOT,
            f"line {number}: the board logs in by itself, so that no login prompt waits for anybody",
            "Let the `login` moment be the shell's prompt, and `login` in `[prompts]`, too; or switch the "
            "automatic login off",
        )
    elif failure == "prompt_unanswered" or failure.startswith(HANGS) or failure in ENDS_EARLY:
        yield Reason(
            Fit.PART,
            "something looks like the prompt, and the log goes on behind it, so it does not show a waiting prompt "
            "at its end",
            "Check a log that ends at the prompt. If a program prints that text, let the pattern of `login` in "
            "`moments` fit less",
        )
    elif failure not in {RESET, "moment_missing", "moment_order", "mixed_boot", "wrong_medium"}:
        yield Reason(Fit.NOT, text)


def _list(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


# --- Output as text and JSON ---


TEXT_CHARACTERS = 70
SHOWN = 5  # lines of failures and of troubles; all of them stand in the document
INDENT = "  "


def lines(findings: Findings, verdict: LogVerdict) -> Iterator[str]:
    """A log's part of the report."""
    log = findings.log
    yield f"{log.where}: {len(log.lines)} lines, as {findings.board.name}"
    for note in log.notes:
        yield f"{INDENT}({note})"
    yield from _flows(findings)
    rows = [_moment_row(findings, found) for found in findings.moments]
    yield from table(["moment", "", "lines", "text"], rows, "<<<<", indent=len(INDENT))
    yield from _evidence(findings)
    software = findings.software
    yield f"{INDENT}U-Boot: {_cut(software.get('uboot', 'no version found'))}"
    yield f"{INDENT}kernel: {_cut(software.get('kernel', 'no version found'))}"
    yield from _known("failures", findings.failures)
    yield from _known("troubles", findings.troubles)
    yield f"{INDENT}prompt: {_prompt(findings)}"
    if findings.flags:
        yield f"{INDENT}a run would flag its numbers: {', '.join(findings.flags)}"
    yield f"{INDENT}{verdict.fit}{': ' if verdict.reasons else ''}{'; '.join(reason.why for reason in verdict.reasons)}"
    for todo in dict.fromkeys(reason.todo for reason in verdict.reasons if reason.todo):
        yield f"{INDENT}  -> {todo}"


def document(findings: Findings, verdict: LogVerdict) -> dict[str, object]:
    """A log's part of the JSON."""
    return {
        "file": findings.log.where,
        "board": findings.board.name,
        "lines": len(findings.log.lines),
        "notes": list(findings.log.notes),
        "flow": findings.flow,
        "flows": {name: {"why_not": candidate.why_not} for name, candidate in findings.flows.items()},
        "moments": [
            {
                "name": found.pattern.name,
                "required": found.pattern.required,
                "times": found.pattern.times,
                "flows": list(found.flows),
                "lines": list(found.lines),
                "text": found.text,
                "too_often": found in findings.too_often,
                "nearly": 0 if found.lines else nearly(findings, found.pattern.name),
            }
            for found in findings.moments
        ],
        "evidence": [asdict(witness) for witness in findings.witnesses],
        "media": list(findings.media),
        "software": findings.software,
        "failures": [asdict(known) for known in findings.failures],
        "troubles": [asdict(known) for known in findings.troubles],
        "prompts": [{"name": found.pattern.name, "lines": list(found.lines)} for found in findings.prompts],
        "flags": list(findings.flags),
        "verdict": str(verdict.fit),
        "why": [reason.why for reason in verdict.reasons],
        "todo": [reason.todo for reason in verdict.reasons if reason.todo],
    }


def _flows(findings: Findings) -> Iterator[str]:
    flow = findings.flow
    open_end = "" if findings.prompts else ", as far as the log goes"
    yield f"{INDENT}flow: {flow + open_end if flow else 'none of the type'}"
    for name, candidate in findings.flows.items():
        if name != findings.way:
            yield f"{INDENT}  not {name}: {candidate.why_not or f'{findings.way} goes first'}"


def _moment_row(findings: Findings, found: FoundMoment) -> list[str]:
    pattern = found.pattern
    in_flow = {each.name: each for each in findings.board.flow(findings.flow or NORMAL)}
    kind = "required" if in_flow.get(pattern.name, pattern).required else "optional"
    if pattern.name not in in_flow:
        kind = f"of {', '.join(found.flows)}"
    if found.lines:
        often = f" too often ({pattern.times} × in a healthy boot)" if found in findings.too_often else ""
        return [pattern.name, kind, ", ".join(map(str, found.lines[:SHOWN])) + often, _cut(found.text.strip())]
    line = nearly(findings, pattern.name) if pattern.name not in ENDS or not findings.prompts else 0
    return [
        pattern.name,
        kind,
        bad("not found") if kind == "required" else "not found",
        f"nearly: line {line} {_cut(findings.log.text(line))}" if line else "",
    ]


def _evidence(findings: Findings) -> Iterator[str]:
    rows = []
    for witness in findings.witnesses:
        medium = witness.medium or "unknown"
        if not witness.line:
            rows.append([witness.source, "says nothing", "", ""])
        elif not witness.confirmed:
            rows.append([witness.source, "not confirmed", str(witness.line), witness.said])
        else:
            rows.append([witness.source, medium, str(witness.line), witness.said])
    if rows:
        yield from table(["evidence", "medium", "line", "said"], rows, "<<<<", indent=len(INDENT))
    agreeing = sum(witness.confirmed and bool(witness.medium) for witness in findings.witnesses)
    match findings.media:
        case ():
            yield f"{INDENT}medium: no source names one"
        case (medium,):
            yield f"{INDENT}medium: {medium}, by {agreeing} of {len(findings.witnesses)} sources"
        case media:
            yield f"{INDENT}medium: mixed, {' and '.join(media)}"


def _known(title: str, found: tuple[KnownLine, ...]) -> Iterator[str]:
    yield f"{INDENT}{title}: {len(found) or 'none'}"
    for known in found[:SHOWN]:
        yield f"{INDENT}  {known.means}, line {known.line}: {_cut(known.text)}"


def _prompt(findings: Findings) -> str:
    found_prompts = [
        f"{found.pattern.name}, line {', '.join(map(str, found.lines[:SHOWN]))}" for found in findings.prompts
    ]
    return "; ".join(found_prompts) or "not found"


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_CHARACTERS else text[: TEXT_CHARACTERS - 1] + "…"
