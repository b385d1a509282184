"""Record of the release on each medium, and the runs' labels.

It is written before the first byte, so a killed write is seen.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from attrs import field, frozen
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from lab.errors import ConfigurationError
from lab.host.clock import utc_now
from lab.results.models import ProvisionRow
from lab.results.rows import columns_of, json_of, record_of
from lab.results.store import Store

ProvisionState = Literal["writing", "written", "booted", "failed", "forgotten"]
_BY_HAND: Final = "if it was written by hand since: lab provision --forget --env ENV --medium"


@frozen
class NewProvision:
    """A write that begins.

    Attributes:
        content: SHA-256 over what the release says of the medium.
        way: its name.
        job_id: of the job that holds the board.
        boots: the boot partition of an eMMC that is written and then switched to.
        kept: the other one, where it booted from that before.
        spare: what is written there, and how it booted before (`lab.provision.writer.Spare`).
        identity: what the release says of itself once it has booted (lab.provision.release.Expected), by name; empty:
            not recorded.
    """

    board_type: str
    board: str
    medium: str
    release: str
    content: str
    way: str
    person: str = ""
    job_id: int | None = None
    boots: str = ""
    kept: str = ""
    spare: Mapping[str, Any] = field(factory=dict)
    identity: Mapping[str, str] = field(factory=dict)


@frozen(kw_only=True)
class Provision(NewProvision):
    """A write as the store has it.

    Attributes:
        state: "writing" also of one that was killed; "written": read back and the same, but never booted; "booted": and
            the board booted it, and said of itself what the release file says; "failed": see `message`, e.g. the
            release was refused on another medium of the same try; "forgotten": a person put something else there by
            hand.
        digest, method, bytes: of what was read back, see lab.provision.writer.Verified.
        software: "uboot" and "kernel" -> the version line of the boot after it.
        at: when it came to this state.
    """

    id: int
    state: ProvisionState
    at: dt.datetime
    digest: str = ""
    method: str = ""
    bytes: int = 0
    software: Mapping[str, str] = field(factory=dict)
    message: str = ""

    @property
    def is_on_it(self) -> bool:
        """Return whether the medium holds the release.

        It does once it has booted with the release's identity.
        """
        return self.state == "booted"


@frozen
class ProvisionBook:
    """The store's record of what is on the boards' media."""

    store: Store
    now: Callable[[], dt.datetime] = utc_now

    def begin(self, new: NewProvision) -> int:
        """Record the start of a write and return its id.

        From here on the medium's content is unknown.
        """

        def insert(session: Session) -> int:
            row = ProvisionRow(
                **columns_of(new, "spare", "identity"),
                state="writing",
                spare=json_of("spare", new.spare),
                identity=json_of("identity", dict(new.identity)),
                at=self.now(),
            )
            session.add(row)
            session.flush()
            return row.id

        return self.store.write(insert)

    def note_written(self, provision_id: int, digest: str, method: str, count: int) -> None:
        """It was read back, and is what was to be written."""

        def note(row: ProvisionRow) -> None:
            row.state, row.digest, row.method, row.bytes = "written", digest, method, count

        self._change(provision_id, note)

    def note_booted(self, provision_id: int, software: Mapping[str, str]) -> None:
        """Record that the board booted the release with its identity."""

        def note(row: ProvisionRow) -> None:
            row.state, row.software = "booted", json_of("software", dict(software))

        self._change(provision_id, note)

    def note_failed(self, provision_id: int, message: str, *, switched_back: bool = False) -> None:
        """Note its failure.

        Args:
            message: of the error.
            switched_back: the medium boots from the partition of before again.
        """

        def note(row: ProvisionRow) -> None:
            row.state, row.message = "failed", message
            if switched_back:
                row.spare = {**row.spare, "switched_back": True}

        self._change(provision_id, note)

    def note_refused(self, provision_id: int, message: str) -> None:
        """Record that something else than the release booted.

        No medium of the same try holds the release, not even one that booted as expected.
        """

        def change(session: Session) -> None:
            row = session.get_one(ProvisionRow, provision_id)
            same = (
                ProvisionRow.board == row.board,
                ProvisionRow.release == row.release,
                ProvisionRow.job_id == row.job_id,
            )
            last = (
                select(func.max(ProvisionRow.id)).where(ProvisionRow.board == row.board).group_by(ProvisionRow.medium)
            )
            there = ProvisionRow.id.in_(last), ProvisionRow.state.in_(("written", "booted"))
            for latest in {row, *session.scalars(select(ProvisionRow).where(*same, *there))}:
                latest.state, latest.message, latest.at = "failed", message, self.now()

        self.store.write(change)

    def forget(self, board: str, medium: str) -> bool:
        """Forget a medium's release, since a person wrote it by hand.

        Returns whether there was a record.
        """
        latest = self.current(board).get(medium)
        if latest is None:
            return False

        def note(row: ProvisionRow) -> None:
            row.state = "forgotten"

        self._change(latest.id, note)
        return True

    def current(self, board: str) -> dict[str, Provision]:
        """Medium -> the latest write to it, unless that was forgotten."""
        last = select(func.max(ProvisionRow.id)).where(ProvisionRow.board == board).group_by(ProvisionRow.medium)
        query = select(ProvisionRow).where(ProvisionRow.id.in_(last), ProvisionRow.state != "forgotten")
        return self.store.read(
            lambda session: {row.medium: _record(row) for row in session.scalars(query.order_by(ProvisionRow.medium))}
        )

    def tries(self, board: str, medium: str) -> list[Provision]:
        """Writes that also went to a boot partition, the newest first.

        Writes before the last `forget` are left out.
        """
        mine = ProvisionRow.board == board, ProvisionRow.medium == medium
        forgotten = select(func.max(ProvisionRow.id)).where(*mine, ProvisionRow.state == "forgotten")
        since = ProvisionRow.id > func.coalesce(forgotten.scalar_subquery(), 0)
        query = select(ProvisionRow).where(*mine, ProvisionRow.boots != "", since).order_by(ProvisionRow.id.desc())
        return self.store.read(lambda session: [_record(row) for row in session.scalars(query)])

    def latest(self) -> list[Provision]:
        """The latest write to each medium of each board."""
        last = select(func.max(ProvisionRow.id)).group_by(ProvisionRow.board, ProvisionRow.medium)
        query = select(ProvisionRow).where(ProvisionRow.id.in_(last), ProvisionRow.state != "forgotten")
        return self.store.read(
            lambda session: [
                _record(row) for row in session.scalars(query.order_by(ProvisionRow.board, ProvisionRow.medium))
            ]
        )

    def _change(self, provision_id: int, note: Callable[[ProvisionRow], None]) -> None:
        def change(session: Session) -> None:
            row = session.get_one(ProvisionRow, provision_id)
            note(row)
            row.at = self.now()

        self.store.write(change)


def _record(row: ProvisionRow) -> Provision:
    identity = {str(name): str(pattern) for name, pattern in row.identity.items()}
    software = {str(name): str(line) for name, line in row.software.items()}
    return record_of(Provision, row, identity=identity, software=software)


def release_on(board: str, media: Sequence[str], known: Mapping[str, Provision]) -> str:
    """Return the release on the media that a run boots from.

    Empty: boardlab wrote none of them.

    Raises:
        ConfigurationError: a release was put on one of them and was not seen to boot from it, or they hold different
            releases.
    """
    releases: dict[str, str] = {}
    for medium in media:
        provision = known.get(medium)
        if provision is None:
            continue
        if not provision.is_on_it:
            raise ConfigurationError(
                f"{medium} of {board} holds no release that is known, so a number from it would have no label: "
                f"{_why(provision)}. Provision it again (lab provision); {_BY_HAND} {medium}"
            )
        releases[medium] = provision.release
    if len(set(releases.values())) > 1 or (releases and len(releases) < len(set(media))):
        on = ", ".join(f"{medium} {releases.get(medium, 'something that boardlab did not write')}" for medium in media)
        raise ConfigurationError(
            f"{board} has different releases on its media ({on}), and a run has one: choose with --medium, or "
            "provision all of them"
        )
    return next(iter(releases.values()), "")


def _why(provision: Provision) -> str:
    match provision.state:
        case "failed":
            return f"{provision.release} was put there and failed: {provision.message.rstrip('.')}"
        case "written":
            return f"{provision.release} was written there and has never booted"
        case _:
            return f"the write of {provision.release} was ended in the middle"


def run_label(board: str, media: Sequence[str], known: Mapping[str, Provision], given: str, default: str) -> str:
    """The label of a new run.

    Args:
        media: that the run boots from.
        known: of `ProvisionBook.current`.
        given: by an option; empty: not given.
        default: of the environment.

    Raises:
        ConfigurationError: `given` is not what was provisioned; or as of `release_on`.
    """
    on_it = release_on(board, media, known)
    if on_it and given and given != on_it:
        raise ConfigurationError(
            f"release {given}: {board} was provisioned with {on_it} on {', '.join(media)}, and a run's label is what "
            f"is on the board. Leave the release out, or put {given} there: lab provision --release FILE; {_BY_HAND} "
            f"{media[0]}"
        )
    return on_it or given or default


def check_resumed(board: str, media: Sequence[str], known: Mapping[str, Provision], release: str, run_id: int) -> None:
    """Make sure that a resumed run's software is still there.

    Raises:
        ConfigurationError: the board was provisioned with another release since; or as of `release_on`.
    """
    on_it = release_on(board, media, known)
    if on_it and on_it != release:
        raise ConfigurationError(
            f"run {run_id} is of release {release!r}, and {board} was provisioned with {on_it!r} since: provision "
            f"{release!r} again and resume it then, or begin a new run"
        )


def run_document(media: Sequence[str], known: Mapping[str, Provision]) -> dict[str, dict[str, object]]:
    """For a run's provenance: medium -> what was provisioned there."""
    return {
        medium: {
            "release": provision.release,
            "content": provision.content,
            "way": provision.way,
            "software": dict(provision.software),
        }
        for medium in media
        if (provision := known.get(medium)) is not None and provision.is_on_it
    }
