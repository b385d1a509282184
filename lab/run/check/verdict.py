"""The verdict on how well a board type fits a log, with reasons and remedies."""

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

# Lines that are this moment on any board. If the log has one, and the type's pattern matches none, the pattern is
# wrong.
NEARLY: Final = {
    "spl": re.compile(r"U-Boot SPL \S"),
    "tfa": re.compile(r"\bBL31: v"),
    "uboot": re.compile(r"^\W*U-Boot 20"),
    "starting_kernel": re.compile(r"(?i)^\W*starting kernel"),
    "login": re.compile(r"^\W*[\w.-]+ login:"),
}
# Failure classes that a live run would give to a log that ends before the prompt.
ENDS_EARLY: Final = frozenset({"too_slow", "stopped_at_uboot", "silent"})
HANGS: Final = "hang_"  # prefix of further such classes


class Fit(enum.StrEnum):
    """How well a board type fits a log."""

    WHOLE = "fits"
    PART = "fits in part"
    NOT = "does not fit"


@frozen
class Reason:
    """A reason why a board type does not fit, or fits only in part.

    Attributes:
        why: the reason, as a clause.
        todo: the remedy, as sentences; empty: there is none.
    """

    fit: Fit
    why: str
    todo: str = ""


@frozen
class LogVerdict:
    """The verdict on a log; without reasons the type fits."""

    reasons: tuple[Reason, ...] = field(default=())

    @property
    def fit(self) -> Fit:
        """The worst fit among the reasons."""
        fits = {reason.fit for reason in self.reasons}
        return next((fit for fit in (Fit.NOT, Fit.PART) if fit in fits), Fit.WHOLE)


def judge(findings: Findings) -> LogVerdict:
    """Judge how well the board type fits the log; only the worst reasons are kept."""
    reasons = list(_reasons(findings))
    if not reasons and findings.result.error is not None:
        reasons = [Reason(Fit.NOT, str(findings.result.error))]
    worst = LogVerdict(tuple(reasons)).fit
    return LogVerdict(tuple(reason for reason in reasons if reason.fit is worst))


def nearly(findings: Findings, name: str) -> int:
    """Return the number of the last line that looks like this moment, from 1; 0: there is none."""
    pattern = NEARLY.get(name)
    if pattern is None:
        return 0
    numbers = range(len(findings.log.lines), 0, -1)
    return next((number for number in numbers if pattern.search(findings.log.text(number))), 0)


def _reasons(findings: Findings) -> Iterator[Reason]:
    """Yield all reasons against a full fit."""
    error = findings.result.error
    failure = error.failure if error else ""
    if len(findings.log.lines) == 1 and findings.log.lines[0].strip(b"\r").count(b"\r") > 1:
        yield Reason(Fit.NOT, CR_ONLY)
        return
    if (number := _line_with_coloured_prompt(findings)) and not findings.prompts:
        yield Reason(
            Fit.NOT,
            f"line {number}: the prompt has terminal sequences in it, e.g. colours",
            r"Let the pattern of `login` in `moments` allow them: `(\x1b\[[0-9;]*m)*` between its parts",
        )
        return
    fatal_line = next((sign for sign in findings.failures if sign.means == failure), None)
    if failure == "rom_no_medium":
        yield Reason(Fit.PART, f"it is a boot without a medium, as the type's `rom` describes it: {error}")
    elif not any(moment.lines for moment in findings.moments):
        yield Reason(
            Fit.NOT,
            "it has none of the type's moments",
            "Check that it is the log of a boot of this board (lab boards). If it is, correct the patterns of "
            "`moments`",
        )
    else:
        yield from _evidence_reasons(findings)
        yield from _flow_reasons(findings, failure)
        if fatal_line is not None:
            yield Reason(
                Fit.PART,
                f"the boot failed: {fatal_line.means}, line {fatal_line.line} {fatal_line.text!r}; up to there it "
                "fits",
                "Check a log that reaches the prompt as well",
            )
        elif error is not None and not findings.prompts:
            yield from _missing_prompt_reasons(findings, failure, str(error))
        elif error is not None:
            yield from _failure_at_prompt_reasons(findings, failure, str(error))
        elif not findings.log.answer and any(ASKS.search(moment.text) for moment in findings.prompts):
            yield Reason(
                Fit.PART,
                "it ends at the line that asks for Enter, and does not show whether `shell` in `[prompts]` matches "
                "the prompt after it",
                "Check a log in which Enter was pressed",
            )


def _line_with_coloured_prompt(findings: Findings) -> int:
    """Return the number of the last prompt that matches only without its terminal sequences; 0: there is none."""
    ends = [moment.pattern.regex for moment in findings.moments if moment.pattern.name in ENDS]
    for number in range(len(findings.log.lines), 0, -1):
        line = findings.log.lines[number - 1]
        text = UNSEEN.sub("", line.decode("latin-1"))
        if b"\x1b" in line and any(re.search(end, text) for end in ends):
            return number
    return 0


def _evidence_reasons(findings: Findings) -> Iterator[Reason]:
    """Yield the reasons by the evidence of the medium: an unknown medium, or two media in one boot."""
    for witness in findings.witnesses:
        if witness.confirmed and not witness.medium:
            yield Reason(
                Fit.NOT,
                f"line {witness.line}: {witness.source} says {witness.said!r}, and the type has no such medium",
                f"If the board is to boot from there, add the word to `media` of the evidence {witness.source!r}",
            )
    if len(findings.media) > 1:
        sources = ", ".join(
            f"{witness.source} names {witness.medium}"
            for witness in findings.witnesses
            if witness.confirmed and witness.medium
        )
        yield Reason(
            Fit.NOT,
            f"a mixed boot: {sources}",
            "A run would refuse it. Check where U-Boot's environment loads Linux from, and the kernel's root=. If the "
            "board did boot from one medium, correct `media` of the `evidence`",
        )


def _flow_reasons(findings: Findings, failure: str) -> Iterator[Reason]:
    """Yield the reasons by the flows: a reset, no flow that fits, moments missing, or a log that begins late."""
    often = findings.too_often
    if failure == RESET and not any(sign.means == RESET for sign in findings.failures):
        text = ", ".join(
            f"{moment.pattern.name} {len(moment.lines)} × (lines {', '.join(map(str, moment.lines))})"
            for moment in often
        )
        yield Reason(
            Fit.NOT,
            f"it looks like a reset: {text or findings.result.error}",
            "If the log has several boots, cut one out. If one healthy boot prints it that often, correct `times` in "
            "`moments`, or give the type a `planned_reset`",
        )
        return
    if not findings.flow:
        text = "; ".join(f"{name}: {candidate.why_not}" for name, candidate in findings.flows.items())
        yield Reason(Fit.NOT, f"it is none of the type's flows ({text})", _moments_remedy(findings))
        return
    before = findings.flows[findings.way].before
    wrong = [f"{name} (line {line})" for name in before if (line := nearly(findings, name))]
    if wrong:
        yield Reason(
            Fit.NOT,
            f"moments are not found, though a line looks like each: {', '.join(wrong)}",
            _moments_remedy(findings),
        )
    elif before:
        yield Reason(
            Fit.PART,
            f"the log begins late: {', '.join(before)} would have come before",
            "Record a log from power on",
        )


def _moments_remedy(findings: Findings) -> str:
    """Return what to change in the type when its moments or flows do not fit."""
    hints = [
        f"line {line} looks like {moment.pattern.name}"
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
    return (
        f"Correct `pattern` or `required` in `moments`{also}, or describe this way to boot as a flow: `[flows.NAME]`"
    )


def _missing_prompt_reasons(findings: Findings, failure: str, text: str) -> Iterator[Reason]:
    """Yield the reason why a boot without a prompt does not fit, or fits in part.

    Args:
        failure: failure class of a live run.
        text: its message.
    """
    line = nearly(findings, "login")
    last = max((number for moment in findings.moments for number in moment.lines), default=0)
    if line > last:
        yield Reason(
            Fit.NOT,
            f"line {line} looks like a prompt that the type's patterns do not match: {findings.log.text(line)!r}",
            "Correct the pattern of `login` in `moments`, and `login` and `shell` in `[prompts]`",
        )
    elif failure.startswith(HANGS) or failure in ENDS_EARLY:
        name = next(moment.pattern.name for moment in findings.moments if last in moment.lines)
        yield Reason(
            Fit.PART,
            f"it fits up to its end, but does not reach the prompt: its last moment is {name} (line {last} of "
            f"{len(findings.log.lines)})",
            "Check a log that reaches the prompt",
        )
    elif failure != RESET:
        yield Reason(Fit.NOT, text)


def _failure_at_prompt_reasons(findings: Findings, failure: str, text: str) -> Iterator[Reason]:
    """Yield the reason why a run would fail though the log has a prompt.

    Args:
        failure: failure class of a live run.
        text: its message.
    """
    number = next((n for n in range(1, len(findings.log.lines) + 1) if findings.log.text(n).endswith(AUTOMATIC)), 0)
    asking = next((moment for moment in findings.prompts if ASKS.search(moment.text)), None)
    if asking is not None:
        yield Reason(
            Fit.NOT,
            f"line {asking.lines[0]} asks for Enter, and no line after it matches `shell` in `[prompts]`",
            "Correct `shell` in `[prompts]`: a run presses Enter, and waits for that prompt",
        )
    elif number:
        yield Reason(
            Fit.NOT,
            f"line {number}: the board logs in automatically, so no login prompt waits for a run",
            "Switch the automatic login off, or set the `login` moment and `login` in `[prompts]` to the shell's "
            "prompt",
        )
    elif failure == "prompt_unanswered" or failure.startswith(HANGS) or failure in ENDS_EARLY:
        yield Reason(
            Fit.PART,
            "a line looks like the prompt, but the log continues after it, so it shows no board that waits at its "
            "prompt",
            "Check a log that ends at the prompt. If a program prints that line, narrow the pattern of `login` in "
            "`moments`",
        )
    elif failure not in {RESET, "moment_missing", "moment_order", "mixed_boot", "wrong_medium"}:
        yield Reason(Fit.NOT, text)
