"""Numbers of a release for a written guide, measured or published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from attrs import field, frozen

from lab.guide.layout import Origin
from lab.metrics import by_name

_HEADLINE = "boot.time"  # of each medium, with the default root file system


@frozen
class EntryProvenance:
    """Provenance of a number.

    Attributes:
        source: in one line: the run, the file and line, the attempts.
        run_id: in the store.
        samples: their count; None if the source does not say (published numbers).
        uncertainty: ± at 95 %, in the metric's unit; None where the source gives none.
        values: the samples by cycle, of measured numbers.
        excerpt: the lines that the number was read from; empty where there are none.
        command: that printed them, as its run recorded it, else as its section describes it.
        note: a reason for care, or the number's own value if the printed one mixes two.
        began: day of the run, e.g. "2026-11-27"; empty of published numbers.
        is_broken: the run failed, the number is no result.
        is_simulated: no real board gave it.
        incomplete: its run did not complete, as `run 47 did not complete (failed)`.
    """

    source: str
    run_id: int
    samples: int | None = None
    uncertainty: float | None = None
    values: tuple[float, ...] = ()
    excerpt: str = ""
    command: str = ""
    note: str = ""
    is_broken: bool = False
    is_simulated: bool = False
    incomplete: str = ""
    began: str = ""


@frozen
class GuideEntry:
    """One number of a board.

    Attributes:
        metric: empty where boardlab has none; then `origin` says where it is printed.
        text: the cell as the vendor prints it, `16.24 (min 15.96, max 16.42)`.
        value: the number, recovered where a rule can; None for n/a and text.
        keys: further key columns as printed, e.g. the nominal voltage of a rail.
        marks: numbers of its footnotes.
        is_withheld: a rule calls the number an error, so it is not printed.
    """

    board: str
    metric: str
    params: Mapping[str, str]
    text: str
    value: float | None
    evidence: EntryProvenance
    keys: Mapping[str, str] = field(factory=dict)
    origin: Origin | None = None
    marks: tuple[int, ...] = ()
    is_withheld: bool = False


@frozen
class GuideRelease:
    """All numbers of a release for some boards.

    Attributes:
        modules: (name, description) of what was measured.
        software: component, e.g. "TF-A" -> board -> version.
        conditions: top chapter of the written guide -> statements such as the SD card; one that is not about all of
            the chapter's boards begins with their names and a colon.
        run_page: URL template of a run's page, with {run}; empty: its runs are no links.
        notes: the footnotes; the first one is 1.
        left_out: what the sources print and no board can be given.
        failed: runs whose numbers are left out, since cycles failed.
        regressions: of its boards, that nobody has decided on, a line for each board.
        uncompared: boards with runs that are not compared with earlier ones yet.
        origins: whose numbers a column has, a sentence for each of several boards.
    """

    name: str
    boards: tuple[str, ...]
    entries: tuple[GuideEntry, ...]
    modules: tuple[tuple[str, str], ...] = ()
    software: Mapping[str, Mapping[str, str]] = field(factory=dict)
    conditions: Mapping[str, tuple[str, ...]] = field(factory=dict)
    run_page: str = ""
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    regressions: tuple[str, ...] = ()
    uncompared: int = 0
    origins: tuple[str, ...] = ()

    @property
    def warnings(self) -> list[str]:
        """Sentences on numbers of simulated boards and of incomplete runs."""
        simulated = sorted({entry.board for entry in self.entries if entry.evidence.is_simulated})
        texts = [f"Simulated, and no measurement of a real board: all numbers of {', '.join(simulated)}."]
        counts = Counter((entry.board, entry.evidence.incomplete) for entry in self.entries)
        return texts * bool(simulated) + [
            f"Incomplete, since {why}: {count} number{'s' * (count > 1)} of {board}."
            for (board, why), count in sorted(counts.items())
            if why
        ]

    @property
    def open_regressions(self) -> list[str]:
        """Sentences on regressions that nobody has decided on, or that are not known yet."""
        boards = f"{self.uncompared} board{'s are' if self.uncompared > 1 else ' is'}"
        unknown = f"{boards} not compared with earlier runs yet: whether a number of them is worse is not known."
        return [f"Open regression of {text}." for text in self.regressions] + [unknown] * bool(self.uncompared)


@frozen
class BoardSummary:
    """A board of a written guide.

    Attributes:
        numbers: how many it has.
        measured: how many of them here; the others are published ones.
        care: how many have a footnote.
        withheld: how many of them are not printed.
        boots: medium -> boot time as printed, with its unit.
    """

    board: str
    numbers: int
    measured: int
    care: int
    withheld: int
    boots: tuple[tuple[str, str], ...]


def summarise_boards(release: GuideRelease) -> list[BoardSummary]:
    """Each board of a release, in its order."""
    summaries = []
    for board in release.boards:
        entries = [entry for entry in release.entries if entry.board == board]
        boots = [
            (entry.params["medium"], f"{entry.text} {by_name(_HEADLINE).unit}")
            for entry in entries
            if entry.metric == _HEADLINE and entry.params.keys() == {"medium"}
        ]
        summaries.append(
            BoardSummary(
                board,
                len(entries),
                sum(entry.evidence.samples is not None for entry in entries),
                sum(bool(entry.marks) for entry in entries),
                sum(entry.is_withheld for entry in entries),
                tuple(sorted(boots)),
            )
        )
    return summaries


@frozen
class SummaryTable:
    """A written guide's summary, a row a board, which its first cell names."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def summary_table(release: GuideRelease) -> SummaryTable:
    """The boards of a release as a table."""
    boards = summarise_boards(release)
    media = sorted({medium for board in boards for medium, _ in board.boots})
    boots = (f"Boot from {medium.upper()}" for medium in media)
    return SummaryTable(
        ("Board", *boots, "Numbers", "Measured here", "With a note", "Not printed"),
        tuple(
            (
                board.board,
                *(dict(board.boots).get(medium, "") for medium in media),
                *map(str, (board.numbers, board.measured, board.care, board.withheld)),
            )
            for board in boards
        ),
    )
