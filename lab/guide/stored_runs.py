"""Runs of the store whose numbers stand in guides, and the cells of imported guides."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

from attrs import field, fields_dict, frozen
from sqlalchemy import or_, select

from lab.guide import boards
from lab.guide.layout import Origin
from lab.judge.labels import release_key, same_release
from lab.judge.store import reviews
from lab.metrics import Measurement
from lab.results import rows
from lab.results.formatting import label
from lab.results.listing import Overview, attempts_of, column_values, count_tried, overview
from lab.results.models import RunRow
from lab.results.records import APART, PUBLISHED, ArtifactRef, Run
from lab.results.store import Store

GUIDE_FILE = "guide"
GUIDE_CELLS = "guide-cells"


@frozen(kw_only=True)
class PublishedCell:
    """A cell of an imported guide, as its artifact has it in JSON.

    Attributes:
        metric: empty where boardlab has none.
        text: as printed.
        value: recovered where a rule can; None: no number.
        note: why it is no result, or its own value where it was recovered.
        is_broken: the run failed, or the number is of something else.
        definition: as the end of a sentence; empty: the only one, or not known.
        conditions: of the measurement, e.g. the SD card.
        keys: header -> text of the row's further key columns.
    """

    metric: str
    params: Mapping[str, str]
    text: str
    value: float | None
    line: int
    note: str
    is_broken: bool
    definition: str = ""
    conditions: tuple[str, ...] = field(default=(), converter=tuple)
    keys: Mapping[str, str]
    origin: Origin

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Self:
        """A cell from JSON."""
        values = {name: document[name] for name in fields_dict(cls) if name in document}
        origin = document["origin"]
        position = (tuple(origin["chapter"]), origin["title"], tuple(origin["keys"]), origin["row"], origin["column"])
        return cls(**values | {"origin": Origin(*position)})


def published_cells(
    store: Store, artifacts: Iterable[ArtifactRef], metric: str | None = None
) -> Iterator[PublishedCell]:
    """The cells of imported guides.

    Args:
        artifacts: of GUIDE_CELLS.
        metric: only its cells; None: all.
    """
    for artifact in artifacts:
        for document in json.loads(store.artifacts.read(artifact.sha256)):
            if metric is None or document["metric"] == metric:
                yield PublishedCell.of_document(document)


def accepted_runs(store: Store, release: str | None = None) -> list[Run]:
    """The runs of nights and guides without a rejection, the newest first.

    Args:
        release: only its runs, and published ones; None: of all.
    """
    reviewed = reviews(store)
    query = select(RunRow).order_by(RunRow.id.desc())
    if release is not None:
        labels = [label for label in column_values(store, "release") if same_release(label, release)]
        query = query.where(or_(RunRow.release.in_(labels), RunRow.kind == PUBLISHED))
    runs = store.read(lambda session: [rows.run(row) for row in session.scalars(query)])
    return [
        run
        for run in runs
        if run.kind not in APART or run.kind == PUBLISHED
        if run.id not in reviewed or reviewed[run.id].decision != "rejected"
    ]


def is_virtual(run: Run) -> bool:
    """Return whether the run's provenance says simulated."""
    return run.provenance.get("virtual") is True


def is_of(run: Run, board: str) -> bool:
    """Return whether a run belongs to a board.

    The name is the board's own, its type's, or the guides' spelling. A simulated board answers to its own name and to
    "TYPE-sim" only, so that its numbers never stand among those of a real one.
    """
    if is_virtual(run):
        return board in {run.board, boards.simulated(run.board_type)}
    return board in {run.board, run.board_type} or run.board_type == boards.type_of(board)


def column_name(accepted_guides: Sequence[Run], run: Run) -> str:
    """Column name of a run's board type in every release.

    It is the vendor's spelling if a guide has one, else the type's name; of a simulated board with "-sim".

    Args:
        accepted_guides: the published runs.
    """
    if is_virtual(run):
        return boards.simulated(run.board_type)
    published = [other for other in accepted_guides if other.board_type == run.board_type and not is_virtual(other)]
    if run.kind == PUBLISHED and len({other.board for other in published if other.release == run.release}) > 1:
        return run.board  # the guide itself tells them apart
    return min((other.board for other in published), default=run.board_type)


def without_sisters(runs: Sequence[Run], board: str) -> list[Run]:
    """Drop published runs of sister boards if this board has its own."""
    published = {run.board for run in runs if run.kind == PUBLISHED}
    return [run for run in runs if run.kind != PUBLISHED or board not in published or run.board == board]


def release_names(runs: Iterable[Run]) -> dict[tuple[int, ...], str]:
    """Map `release_key` to the name of each release."""
    return {release_key(run.release): run.release for run in runs}


def sound_numbers(store: Store, run: Run) -> tuple[Overview, list[str]]:
    """Load a run without the numbers of failed cycles.

    The texts name the numbers that are left out. A cycle failed when none of its attempts gave samples.
    """
    whole = overview(store, run.id)
    sound: list[Measurement] = []
    failures: dict[str, None] = {}
    for measurement in whole.measurements:
        attempts = attempts_of(whole.attempts, measurement)
        lost = {attempt.cycle: attempt for attempt in attempts}
        for attempt in attempts:
            if attempt.ok:
                lost.pop(attempt.cycle, None)
        if not lost:
            sound.append(measurement)
            continue
        counts = Counter(attempt.outcome for attempt in lost.values()).most_common()
        outcomes = ", ".join(f"{outcome} {count}" for outcome, count in counts)
        item = label(next(iter(lost.values())).params)
        place = f"{run.board}{f' ({item})' if item else ''}"
        failures[f"{place}: run {run.id} failed in {len(lost)} of {count_tried(attempts)} cycles ({outcomes})"] = None
    return Overview(whole.run, whole.attempts, sound), list(failures)


def incomplete(run: Run) -> str:
    """The remark on numbers of an incomplete run; else empty."""
    return "" if run.status == "completed" else f"run {run.id} did not complete ({run.status})"
