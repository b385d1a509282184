"""The verdict of a board type on a log, with remedies."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from typing import Final

from attrs import field, frozen

from lab.benchmarks.boot import ENDS
from lab.benchmarks.boot.prompt import ASKS
from lab.benchmarks.boot.watch import CR_ONLY
from lab.run.check.bare_log import AUTOMATIC, UNSEEN
from lab.run.check.findings import RESET, Findings

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
        fits = {reason.fit for reason in self.reasons}
        return next((fit for fit in (Fit.NOT, Fit.PART) if fit in fits), Fit.WHOLE)


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
    if (number := _colour_in_prompt(findings)) and not findings.prompts:
        yield Reason(
            Fit.NOT,
            f"line {number}: the prompt has terminal sequences in it, e.g. colours",
            r"Let the pattern of `login` in `moments` allow them: `(\x1b\[[0-9;]*m)*` between its parts",
        )
        return
    died = next((sign for sign in findings.failures if sign.means == failure), None)
    if failure == "rom_no_medium":
        yield Reason(Fit.PART, f"it is a boot without a medium, as the type's `rom` knows it: {error}")
    elif not any(moment.lines for moment in findings.moments):
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
        elif not findings.log.answer and any(ASKS.search(moment.text) for moment in findings.prompts):
            yield Reason(
                Fit.PART,
                "it ends at the line that asks for Enter, and does not show whether `shell` in `[prompts]` fits what "
                "comes then",
                "Check a log in which Enter was pressed",
            )


def _colour_in_prompt(findings: Findings) -> int:
    """Number of the last line that is a prompt without its terminal sequences; 0: none."""
    ends = [moment.pattern.regex for moment in findings.moments if moment.pattern.name in ENDS]
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
    if failure == RESET and not any(sign.means == RESET for sign in findings.failures):
        text = ", ".join(
            f"{moment.pattern.name} {len(moment.lines)} × (lines {', '.join(map(str, moment.lines))})"
            for moment in often
        )
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
        f"line {line} nearly is {moment.pattern.name}"
        for moment in findings.moments
        if not moment.lines and (line := nearly(findings, moment.pattern.name))
    ]
    also = f" ({'; '.join(hints)})" if hints else ""
    lines = {moment.pattern.name: moment.lines for moment in findings.moments}
    if lines.get("sbl") and lines.get("tfa") and not lines.get("uboot") and findings.prompts:
        return (
            "SBL seems to have started Linux itself: describe that as a flow, `[flows.sbl_linux]` with the moments "
            'sbl, tfa and login, and `start = "tfa"`'
        )
    return f"Mend `pattern` or `required` in `moments`{also}, or describe this way to boot as a flow: `[flows.NAME]`"


def _of_the_end(findings: Findings, failure: str, text: str) -> Iterator[Reason]:
    """The reasons of a missing prompt."""
    line = nearly(findings, "login")
    last = max((number for moment in findings.moments for number in moment.lines), default=0)
    if line > last:
        yield Reason(
            Fit.NOT,
            f"line {line} looks like a prompt that the type does not know: {findings.log.text(line)!r}",
            "Mend the pattern of `login` in `moments`, and `login` and `shell` in `[prompts]`",
        )
    elif failure.startswith(HANGS) or failure in ENDS_EARLY:
        name = next(moment.pattern.name for moment in findings.moments if last in moment.lines)
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
    asking = next((moment for moment in findings.prompts if ASKS.search(moment.text)), None)
    if asking is not None:
        yield Reason(
            Fit.NOT,
            f"line {asking.lines[0]} asks for Enter, and no line behind it fits `shell` in `[prompts]`",
            "Mend `shell` in `[prompts]`: a run presses Enter, and waits for that prompt",
        )
    elif number:
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
