"""A new board's qualification: boots from all media, rails, and its spread beside its kin's.

Until it passes, a hold of its own kind keeps the board from all jobs but those that check, write or qualify it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean, median
from typing import Final

from attrs import field, frozen

from lab.boards import BoardType
from lab.errors import ConfigurationError
from lab.health import BoardCheck
from lab.health.reservations import QUALIFYING, ReservationBook
from lab.judge import noise
from lab.metrics import Measurement
from lab.metrics.catalogue import BOOT_TIME, HEADLINE_NAMES
from lab.metrics.uncertainty import deviation
from lab.results import listing
from lab.results.audit import LONGEST_COMMENT, Act, Audit
from lab.results.listing import Overview, RunFilter
from lab.results.store import Store
from lab.run.options import BOOT

BOOTS: Final = 20  # of each medium
KIN_RUNS: Final = 10  # the latest ones of other boards of the type, with the same release
WIDER: Final = 3.0  # times the kin's spread: a board that wavers more is not sound
ACTION: Final = "qualify"  # name of the audit log


@frozen
class Qualification:
    """The outcome of a qualification.

    Attributes:
        reasons: why it failed; empty: it passed.
        notes: what could not be tried.
        run: None: nothing was measured.
        kin: boards that it was compared with.
    """

    board: str
    reasons: tuple[str, ...]
    notes: tuple[str, ...] = ()
    run: int | None = None
    kin: tuple[str, ...] = field(default=())

    @property
    def passed(self) -> bool:
        """True if the board may serve."""
        return not self.reasons


def judge(
    store: Store, board_type: BoardType, board: str, run_id: int | None, check: BoardCheck | None, boots: int = BOOTS
) -> Qualification:
    """Judge a board by its run and the health check before it.

    Args:
        run_id: of boot times; None: there is none.

    Raises:
        BoardlabError: the store cannot be read.
    """
    notes: list[str] = []
    reasons = list(_check_problems(check, notes))
    if run_id is None:
        return Qualification(
            board,
            (
                *reasons,
                f"no boot was measured; the output of `lab run --env {board} --cycles 1 --ignore-reservation` says why",
            ),
            tuple(notes),
        )
    run = listing.overview(store, run_id)
    reasons += _boot_problems(run, board_type, boots, notes)
    kin = _kin(store, run)
    if kin:
        reasons += _beside_kin(run, kin)
    else:
        notes.append(f"no other {board_type.name} was measured with this release: its spread is compared with none")
    notes += _own_sensitivity(store, board)
    return Qualification(
        board, tuple(reasons), tuple(notes), run_id, tuple(sorted({other.run.board for other in kin}))
    )


def finish(store: Store, result: Qualification, person: str, actor: str, address: str) -> None:
    """Let a board serve, or note in its hold why not.

    Both are in the audit log, and the notes are a comment on the board's page.
    """
    reservations = ReservationBook(store)
    about = f"run {result.run}" if result.run is not None else ""
    if result.notes:
        notes = "\n".join((f"Qualification, {about or 'nothing was measured'}:", *result.notes))
        Audit(store).comment(result.board, person, notes[:LONGEST_COMMENT])
    if result.passed:
        with Audit(store).acting(Act(about=about), ACTION, person=actor, address=address, board=result.board):
            if any(hold.kind == QUALIFYING for hold in reservations.standing(result.board)):
                reservations.end(result.board, QUALIFYING, person)
        return
    why = "; ".join(result.reasons)
    Audit(store).note(
        ACTION, person=actor, address=address, board=result.board, about=about, outcome=f"it did not qualify: {why}"
    )
    reservations.reason(result.board, QUALIFYING, f"it did not qualify: {why}")


def _check_problems(check: BoardCheck | None, notes: list[str]) -> Iterator[str]:
    if check is None:
        yield "its health was not checked"
        return
    for part in check.failed:
        yield f"{part.name}: {part.message} ({part.failure})"
    if not check.passed and not check.failed:
        yield "its health check did not pass"
    notes += [f"{part.name}: {part.message or 'not tried'}" for part in check.parts if part.outcome == "not tried"]


def _boot_problems(run: Overview, board_type: BoardType, boots: int, notes: list[str]) -> Iterator[str]:
    """Find media with missing or failed boots."""
    planned = run.run.plan.get("media")
    media = [str(medium) for medium in planned] if isinstance(planned, list) else []
    if left := [medium for medium in board_type.media if medium not in media]:
        notes.append(f"{', '.join(left)}: not measured: nothing selects it, or it was left out")
    for medium in media:
        boots_of_medium = [attempt for attempt in run.attempts if attempt.params.get("medium") == medium]
        good = len({attempt.cycle for attempt in boots_of_medium if attempt.ok})
        for labs in (False, True):
            failed = [
                attempt.outcome for attempt in boots_of_medium if not attempt.ok and (attempt.fault == "lab") is labs
            ]
            text = (
                f"{medium}: {len(failed)} of {len(boots_of_medium)} boots failed ({', '.join(dict.fromkeys(failed))})"
            )
            if failed and labs:
                notes.append(f"{text}: the lab's fault")
            elif failed:
                yield text
        if good < boots:
            yield f"{medium}: {good} good boots, and {boots} are wanted"


def _kin(store: Store, own: Overview) -> list[Overview]:
    """The latest comparable runs of other boards of the type that serve."""
    new = {hold.board for hold in ReservationBook(store).standing() if hold.kind == QUALIFYING}
    run_filter = RunFilter(types=(own.run.board_type,), releases=(own.run.release,), statuses=("completed",))
    kin: list[Overview] = []
    for listed in listing.list_runs(store, run_filter, KIN_RUNS * 10):
        run = listed.run
        if run.kind != BOOT or run.board in {own.run.board, *new} or len(kin) == KIN_RUNS:
            continue
        other = listing.overview(store, run.id)
        if other.virtual == own.virtual:
            kin.append(other)
    return kin


def _beside_kin(own: Overview, kin: Sequence[Overview]) -> Iterator[str]:
    """Find boot times that waver more than the kin's, or lie elsewhere."""
    noise_limits = noise.load()
    for measured in _headlines(own):
        others = [other for run_of_kin in kin for other in _headlines(run_of_kin) if _is_same(measured, other)]
        values = [sample.value for sample in measured.samples]
        spreads = [deviation([s.value for s in other.samples]) for other in others if len(other.samples) > 1]
        if not others or len(values) < 2 or not spreads:
            continue
        params = " ".join(measured.params.values()) or "all"
        what = f"{params}: {measured.metric.name}"
        mean, spread, usual = fmean(values), deviation(values), median(spreads)
        limits = noise_limits.of(measured.metric.name, measured.params)
        floor = abs(mean) * noise_limits.history.least
        if spread > max(WIDER * usual, floor):
            yield (
                f"{what} varies by {spread:.3g} {measured.metric.unit}, and by {usual:.3g} on {len(others)} runs of "
                "its kin"
            )
        middle = median(fmean([s.value for s in other.samples]) for other in others)
        apart = (mean - middle) / abs(middle) if middle else 0.0
        if abs(apart) > limits.relative:
            yield (
                f"{what} is {mean:.4g} {measured.metric.unit}, {100 * apart:+.1f} % from its kin's; equal boards "
                f"differ by {100 * limits.relative:g} %"
            )


def _own_sensitivity(store: Store, board: str) -> Iterator[str]:
    """Sentences of the judge's power on the board, and of its false alarms."""
    from lab.judge import sensitivity  # noqa: PLC0415 - numpy

    try:
        numbers = sensitivity.board_sensitivity(store, board, BOOT, BOOT_TIME.name)
    except ConfigurationError as error:
        yield f"what the judge would find on it is not known yet: {error}"
    else:
        yield from map(sensitivity.sentence, numbers)


def _headlines(run: Overview) -> list[Measurement]:
    return [measurement for measurement in run.measurements if measurement.metric.name in HEADLINE_NAMES]


def _is_same(measurement: Measurement, other: Measurement) -> bool:
    return (measurement.metric.name, measurement.metric.version, dict(measurement.params)) == (
        other.metric.name,
        other.metric.version,
        dict(other.params),
    )
