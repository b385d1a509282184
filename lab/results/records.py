"""The store's frozen records, independent of the database."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

from attrs import field, frozen, validators

from lab.errors import TestStableError
from lab.metrics import Measurement, Moment, SampleRecord
from lab.metrics.model import finite

Json: TypeAlias = Mapping[str, Any]  # anything that json.dumps writes
RunStatus = Literal["running", "completed", "interrupted", "failed"]

KILLED: Final = "killed"  # shown status of a run that is "running" in the store, but has no living job
OK: Final = "ok"  # outcome of a good attempt
LAST_ID: Final = 2**31 - 1  # largest id of a run, attempt, job or verdict: the databases' integers have 32 bits
STATUSES: Final = (*get_args(RunStatus), KILLED)  # statuses that a list shows
POWER_TRACE: Final = "power-trace"
CONSOLE_LOG: Final = "console-log"
CONSOLE_INDEX: Final = "console-index"
PUBLISHED: Final = "published"  # kind of a run with the numbers of a vendor's guide, which were not measured here
AB, BISECT, DIAGNOSIS = "ab", "bisect", "diagnosis"  # kinds of runs that answer one question, beside the nightly ones
# Kinds that histories, guides and lists of latest numbers leave out.
APART: Final = (PUBLISHED, AB, BISECT, DIAGNOSIS)
HOST_BUSY: Final = (
    "host_busy"  # key of an attempt's details: share of this host's processor time that was used, 0 to 1
)
TEST: Final = "test"  # parameter of an attempt at a lab's own test: the test's id
ATTACHED: Final = "file:"  # prefix of the kind of an artifact that a test attached; its name follows
MEASURED: Final = "measured"  # key of details: numbers that do not count, of a failed attempt or a wrong call
LIMITS: Final = "limits"  # key of details: metric -> its limits when it was measured
EVIDENCE: Final = "evidence"  # key of a published attempt's details: what the guide says of its numbers
FAULTS: Final = ("board", "lab", "test", "configuration")


def _json(instance: object, attribute: object, value: object) -> None:
    """Validate that a field can be written as JSON."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        name = getattr(attribute, "name", "value")
        raise TestStableError(f"{name} of a {type(instance).__name__} cannot be written as JSON: {error}") from error


@frozen
class ArtifactRef:
    """A reference to a file of an attempt, which is named by its contents.

    Attributes:
        kind: role of the file, e.g. "console-log"; an attempt has at most one file of a kind.
        sha256: SHA-256 of its bytes in hexadecimal, as `ArtifactStore.put` returns it.
        size: number of bytes.
    """

    kind: str
    sha256: str
    size: int


@frozen
class AttemptRecord:
    """One try at one cycle, committed by `Store.record_attempt`.

    Attributes:
        cycle: number of the cycle, from 1, among those with the same `params`.
        number: number of the try at that cycle, from 1; the store continues the count of an earlier session.
        params: the tried item, e.g. {"medium": "sd"}.
        outcome: "ok" or the failure class, e.g. "hang_kernel".
        fault: party at fault, as `BoardlabError.fault`; None: the attempt is good.
        transient: True if a retry may help; None: the attempt is good.
        message: message of the failure; empty: the attempt is good.
        started_at: wall time with its time zone.
        details: further facts on the attempt.
    """

    cycle: int
    number: int
    params: Mapping[str, str]
    outcome: str
    fault: str | None
    transient: bool | None
    message: str
    started_at: dt.datetime
    duration_s: float = field(validator=finite)
    samples: tuple[SampleRecord, ...] = ()
    artifacts: tuple[ArtifactRef, ...] = ()
    moments: tuple[Moment, ...] = ()
    details: Json = field(factory=dict, validator=_json)

    def __attrs_post_init__(self) -> None:
        if self.started_at.tzinfo is None:
            raise TestStableError("started_at needs a time zone; take it from lab.host.clock.utc_now")
        if self.ok and self.fault is not None:
            raise TestStableError(f"an attempt that is ok is nobody's fault, got {self.fault!r}")
        if not self.ok and self.fault not in FAULTS:
            raise TestStableError(f"a failed attempt is the fault of {', '.join(FAULTS)}; got {self.fault!r}")
        if not self.ok and self.samples:
            raise TestStableError(f"an attempt that failed ({self.outcome}) must not enter the samples")

    @property
    def ok(self) -> bool:
        """True if the attempt gave its samples."""
        return self.outcome == OK

    def artifact(self, kind: str) -> ArtifactRef | None:
        """Return the attempt's file of a kind; None: it has none."""
        return next((ref for ref in self.artifacts if ref.kind == kind), None)


@frozen
class Attempt(AttemptRecord):
    """An attempt that was read from the store, with its id and its run's."""

    id: int = field(kw_only=True)
    run_id: int = field(kw_only=True)


@frozen
class GoodAttempt:
    """A good attempt without its samples and files."""

    params: Mapping[str, str]
    cycle: int
    details: Mapping[str, Any] = field(factory=dict)


@frozen
class StoredSample(SampleRecord):
    """A sample that was read from the store, with its attempt and its metric's definition.

    Attributes:
        version: version of the metric's definition.
        unit: unit of the value.
    """

    cycle: int = field(kw_only=True)
    attempt_id: int = field(kw_only=True)
    version: int = field(kw_only=True)
    unit: str = field(kw_only=True)


@frozen
class RunHead:
    """A run of one board with one release, without its plan.

    Attributes:
        kind: kind of measurement, e.g. "boot".
        board_type: e.g. "am62xx_sk".
        board: name of the board.
        release: label of the software on it.
        status: a `RunStatus`; or `KILLED`, if the run was listed with its job (`lab.jobs.listing`).
        finished_at: None: the run is in progress, or was killed.
        job_id: the job that began it; None: unknown, or the run was imported.
    """

    id: int
    kind: str
    board_type: str
    board: str
    release: str
    status: str
    started_at: dt.datetime
    finished_at: dt.datetime | None
    job_id: int | None = None


@frozen(kw_only=True)
class Run(RunHead):
    """A run with its plan.

    Attributes:
        plan: the requested items and cycles; a resumed run must have the same.
        provenance: context of its numbers: host, adapter, clock, hashes of images.
    """

    plan: Json
    provenance: Json

    @property
    def end(self) -> str:
        """The status of a run that is not in progress; one that is still "running" was killed."""
        return KILLED if self.status == "running" else self.status


@frozen
class Retention:
    """Ages in days after which parts of a run are removed; 0: never.

    Attributes:
        packed: age after which a run's files become a few zip files; nothing is removed.
        recordings: age of recordings of consoles.
        traces: age of traces of rails.
        logs: age of other files of attempts.
        runs: age of whole runs with their numbers.
        hold: releases whose runs lose nothing.
    """

    packed: int = field(default=0, validator=validators.ge(0), kw_only=True)
    recordings: int = field(default=0, validator=validators.ge(0))
    traces: int = field(default=0, validator=validators.ge(0))
    logs: int = field(default=0, validator=validators.ge(0))
    runs: int = field(default=0, validator=validators.ge(0))
    hold: Sequence[str] = ()


@frozen
class RunContents:
    """A run with everything that was recorded in it, at one instant."""

    run: Run
    attempts: list[Attempt]
    measurements: list[Measurement]


def plan_differences(stored: Json, wanted: Json) -> list[str]:
    """Return one line for each difference between a run's plan and the wanted one.

    Both are compared as JSON, so a tuple equals the list that the store gives back.
    """
    was, now = json.loads(json.dumps(dict(stored))), json.loads(json.dumps(dict(wanted)))
    absent = "(not given)"
    return [
        f"{key}: the run has {was.get(key, absent)!r}, now it is {now.get(key, absent)!r}"
        for key in sorted(was.keys() | now.keys())
        if was.get(key, absent) != now.get(key, absent)
    ]
