"""Footnotes of a written guide: what its own rules and its runs say about a number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from attrs import define, evolve, field

from lab.guide.check.findings import RuleFinding, run_rules
from lab.guide.model import value_of
from lab.guide.rulebook import Effect, Severity
from lab.guide.write import rst_writer
from lab.guide.write.entries import GuideEntry, GuideRelease

_MARKED: Final = (Severity.ERROR, Severity.WARNING, Severity.SUSPECT)
_ROUNDS: Final = 4  # of the rules: a table without a wrong number may show the next one
_ROUNDING: Final = 0.006  # of a printed mean with two decimals
_RECOVERED: Final = "Recovered: the published guide prints another number in this cell."


def annotate(release: GuideRelease, *, corrected: bool = True, with_errors: bool = False) -> GuideRelease:
    """Mark the numbers of a release that need a footnote.

    Args:
        corrected: print the recovered number in place of the published one; else the published one keeps its form.
        with_errors: print numbers that a rule calls an error, marked.
    """
    notes = _Notes()
    entries = [_correct(entry, notes) if corrected else entry for entry in release.entries]
    entries = [_mark_own(entry, notes, with_errors) for entry in entries]
    for _ in range(_ROUNDS):
        withheld = sum(entry.is_withheld for entry in entries)
        for index, finding in list(_findings(evolve(release, entries=tuple(entries)))):
            entries[index] = _apply_rule(entries[index], finding, notes, corrected, with_errors)
        if with_errors or sum(entry.is_withheld for entry in entries) == withheld:
            break
    return notes.number(evolve(release, entries=tuple(entries)))


@define
class _Notes:
    """Footnotes in order of their first use; the final numbers follow the guide's own order."""

    texts: list[str] = field(factory=list)

    def mark(self, entry: GuideEntry, text: str) -> GuideEntry:
        if text not in self.texts:
            self.texts.append(text)
        number = self.texts.index(text) + 1
        return entry if number in entry.marks else evolve(entry, marks=(*entry.marks, number))

    def number(self, release: GuideRelease) -> GuideRelease:
        """Number the footnotes as a reader meets them."""
        order: dict[int, int] = {}
        for entry in rst_writer.compose(release).entries.values():
            for mark in entry.marks:
                order.setdefault(mark, len(order) + 1)
        entries = tuple(
            evolve(e, marks=tuple(sorted(order[m] for m in e.marks if m in order))) for e in release.entries
        )
        return evolve(release, entries=entries, notes=tuple(self.texts[mark - 1] for mark in order))


def _correct(entry: GuideEntry, notes: _Notes) -> GuideEntry:
    """Print a published number's own value if its cell has another."""
    printed = value_of(entry.text).number
    if entry.evidence.samples is not None or entry.evidence.is_broken or entry.value is None or printed is None:
        return entry
    if abs(printed - entry.value) < _ROUNDING:
        return entry
    return notes.mark(evolve(entry, text=f"{entry.value:.2f}"), _RECOVERED)


def _mark_own(entry: GuideEntry, notes: _Notes, with_errors: bool) -> GuideEntry:
    """Apply what the number's own run or guide says."""
    note = entry.evidence.note
    if not note or _RECOVERED in (notes.texts[mark - 1] for mark in entry.marks):
        return entry
    if entry.evidence.is_broken and not with_errors:
        return _withhold(entry, notes, note.rpartition(": ")[2])  # its numbers stand with the evidence
    return notes.mark(entry, _sentence(note))


def _apply_rule(
    entry: GuideEntry, finding: RuleFinding, notes: _Notes, corrected: bool, with_errors: bool
) -> GuideEntry:
    is_kept = finding.rule.effect is Effect.HARMLESS or (finding.rule.effect is Effect.RECOVERED and not corrected)
    if finding.severity is Severity.ERROR and not with_errors and not is_kept:
        return _withhold(entry, notes, finding.rule.title)
    return entry if entry.is_withheld else notes.mark(entry, _sentence(finding.rule.title))


def _withhold(entry: GuideEntry, notes: _Notes, why: str) -> GuideEntry:
    marks = entry.marks if entry.is_withheld else ()  # other remarks are about the number
    return notes.mark(
        evolve(entry, text="n/a", is_withheld=True, marks=marks), _sentence(f"Not printed: {why[:1].lower()}{why[1:]}")
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _findings(release: GuideRelease) -> Iterator[tuple[int, RuleFinding]]:
    """(Index of an entry, finding) of the guide that would be written."""
    guide = rst_writer.compose(release)
    index = {id(entry): number for number, entry in enumerate(release.entries)}
    for finding in run_rules(guide.sheet("written.rst")):
        if finding.severity not in _MARKED:
            continue
        for cell in finding.cells:
            entry = guide.entries.get((cell.line, cell.column))
            if entry is not None:
                yield index[id(entry)], finding
