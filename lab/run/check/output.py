"""The output of a check, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import asdict

from lab.benchmarks.boot import ENDS
from lab.boards import NORMAL
from lab.run.check.findings import Findings, FoundMoment, KnownLine
from lab.run.check.verdict import LogVerdict, nearly
from lab.terminal import bad, table

TEXT_CHARACTERS = 70  # longer lines of a log are cut
SHOWN = 5  # more failures, troubles or line numbers are left out of the text; the JSON has all
INDENT = "  "


def lines(findings: Findings, verdict: LogVerdict) -> Iterator[str]:
    """Yield the lines of one log's report."""
    log = findings.log
    yield f"{log.where}: {len(log.lines)} lines, as {findings.board.name}"
    for note in log.notes:
        yield f"{INDENT}({note})"
    flow = findings.flow
    open_end = "" if findings.prompts else ", as far as the log goes"
    yield f"{INDENT}flow: {flow + open_end if flow else 'none of the type'}"
    for name, candidate in findings.flows.items():
        if name != findings.way:
            yield f"{INDENT}  not {name}: {candidate.why_not or f'{findings.way} goes first'}"
    rows = [_moment_row(findings, moment) for moment in findings.moments]
    yield from table(["moment", "", "lines", "text"], rows, "<<<<", indent=len(INDENT))
    yield from _evidence(findings)
    software = findings.software
    yield f"{INDENT}U-Boot: {_cut(software.get('uboot', 'no version found'))}"
    yield f"{INDENT}kernel: {_cut(software.get('kernel', 'no version found'))}"
    yield from _sign_lines("failures", findings.failures)
    yield from _sign_lines("troubles", findings.troubles)
    prompts = [
        f"{moment.pattern.name}, line {', '.join(map(str, moment.lines[:SHOWN]))}" for moment in findings.prompts
    ]
    yield f"{INDENT}prompt: {'; '.join(prompts) or 'not found'}"
    if findings.flags:
        yield f"{INDENT}a run would flag its numbers: {', '.join(findings.flags)}"
    yield f"{INDENT}{verdict.fit}{': ' if verdict.reasons else ''}{'; '.join(reason.why for reason in verdict.reasons)}"
    for todo in dict.fromkeys(reason.todo for reason in verdict.reasons if reason.todo):
        yield f"{INDENT}  -> {todo}"


def document(findings: Findings, verdict: LogVerdict) -> dict[str, object]:
    """Return one log's part of the JSON."""
    return {
        "file": findings.log.where,
        "board": findings.board.name,
        "lines": len(findings.log.lines),
        "notes": list(findings.log.notes),
        "flow": findings.flow,
        "flows": {name: {"why_not": candidate.why_not} for name, candidate in findings.flows.items()},
        "moments": [
            {
                "name": moment.pattern.name,
                "required": moment.pattern.required,
                "times": moment.pattern.times,
                "flows": list(moment.flows),
                "lines": list(moment.lines),
                "text": moment.text,
                "too_often": moment in findings.too_often,
                "nearly": 0 if moment.lines else nearly(findings, moment.pattern.name),
            }
            for moment in findings.moments
        ],
        "evidence": [asdict(witness) for witness in findings.witnesses],
        "media": list(findings.media),
        "software": findings.software,
        "failures": [asdict(sign) for sign in findings.failures],
        "troubles": [asdict(sign) for sign in findings.troubles],
        "prompts": [{"name": moment.pattern.name, "lines": list(moment.lines)} for moment in findings.prompts],
        "flags": list(findings.flags),
        "verdict": str(verdict.fit),
        "why": [reason.why for reason in verdict.reasons],
        "todo": [reason.todo for reason in verdict.reasons if reason.todo],
    }


def _moment_row(findings: Findings, moment: FoundMoment) -> list[str]:
    """Return a moment's row: name, required or not, lines, and the text of its line or of one that nearly fits."""
    pattern = moment.pattern
    in_flow = {own.name: own for own in findings.board.flow(findings.flow or NORMAL)}
    kind = "required" if in_flow.get(pattern.name, pattern).required else "optional"
    if pattern.name not in in_flow:
        kind = f"of {', '.join(moment.flows)}"
    if moment.lines:
        often = f" too often ({pattern.times} × in a healthy boot)" if moment in findings.too_often else ""
        return [pattern.name, kind, ", ".join(map(str, moment.lines[:SHOWN])) + often, _cut(moment.text.strip())]
    line = nearly(findings, pattern.name) if pattern.name not in ENDS or not findings.prompts else 0
    return [
        pattern.name,
        kind,
        bad("not found") if kind == "required" else "not found",
        f"nearly: line {line} {_cut(findings.log.text(line))}" if line else "",
    ]


def _evidence(findings: Findings) -> Iterator[str]:
    """Yield the table of the evidence, and the medium that it names."""
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


def _sign_lines(title: str, signs: tuple[KnownLine, ...]) -> Iterator[str]:
    """Yield the number of failures or troubles, and the first of them."""
    yield f"{INDENT}{title}: {len(signs) or 'none'}"
    for sign in signs[:SHOWN]:
        yield f"{INDENT}  {sign.means}, line {sign.line}: {_cut(sign.text)}"


def _cut(text: str) -> str:
    """Return a line's text, cut to the width of the report."""
    return text if len(text) <= TEXT_CHARACTERS else text[: TEXT_CHARACTERS - 1] + "…"
