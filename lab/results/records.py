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

KILLED: Final = "killed"  # the state of a run that is "running" in the store, and that no living job measures
OK: Final = "ok"
LAST_ID: Final = 2**31 - 1  # of the databases' integers: runs, attempts, jobs, verdicts
STATUSES: Final = (*get_args(RunStatus), KILLED)  # of runs in lists
POWER_TRACE: Final = "power-trace"
CONSOLE_LOG: Final = "console-log"
CONSOLE_INDEX: Final = "console-index"
PUBLISHED: Final = "published"  # kind of a run that holds a vendor's guide; it was not measured here
AB, BISECT, DIAGNOSIS = "ab", "bisect", "diagnosis"  # kinds of runs for a question of their own
# Kinds that are no night of a board: no history, guide or list of latest numbers has them
APART: Final = (PUBLISHED, AB, BISECT, DIAGNOSIS)
# In an attempt's details: the share of the processors' time that was used meanwhile, 0 to 1
HOST_BUSY: Final = "host_busy"
TEST: Final = "test"  # the parameter of an attempt at a lab's own test: its id
ATTACHED: Final = "file:"  # kind of an artifact that a test attached, before its name
# In an attempt's details: numbers that do not count, since the attempt failed or the call was wrong
MEASURED: Final = "measured"
LIMITS: Final = "limits"  # in an attempt's details: metric -> its limits when it was measured
EVIDENCE: Final = "evidence"  # in the details of a published attempt: what is known of its numbers beyond their values
FAULTS: Final = ("board", "lab", "test", "configuration")


def _json(instance: object, attribute: object, value: object) -> None:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        name = getattr(attribute, "name", "value")
        raise TestStableError(f"{name} of a {type(instance).__name__} cannot be written as JSON: {error}") from error


@frozen
class ArtifactRef:
    """A file of an attempt, named by its contents.

    Attributes:
        kind: its role in the attempt, e.g. "console-log"; an attempt has one of a kind.
        sha256: of its bytes, in hexadecimal; `ArtifactStore.put` gives it.
        size: in bytes.
    """

    kind: str
    sha256: str
    size: int


@frozen
class AttemptRecord:
    """One try at one cycle, committed by `Store.record_attempt`.

    Attributes:
        cycle: which cycle it is, from 1, among those with the same `params`.
        number: which try of that cycle, from 1; the store goes on counting where an earlier session has tried it.
        params: the tried item, e.g. {"medium": "sd"}.
        outcome: "ok" or the failure class, e.g. "hang_kernel".
        fault: party at fault, as `BoardlabError.fault`; None when ok.
        transient: a retry may help; None when ok.
        started_at: wall time with its time zone.
        details: further explanations of the outcome.
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
        """The attempt's artifact of that kind, if it has one."""
        return next((ref for ref in self.artifacts if ref.kind == kind), None)


@frozen
class Attempt(AttemptRecord):
    """An attempt as the store gives it back."""

    id: int = field(kw_only=True)
    run_id: int = field(kw_only=True)


@frozen
class GoodAttempt:
    """An attempt that succeeded, in short."""

    params: Mapping[str, str]
    cycle: int
    details: Mapping[str, Any] = field(factory=dict)


@frozen
class StoredSample(SampleRecord):
    """A stored sample with its attempt."""

    cycle: int = field(kw_only=True)
    attempt_id: int = field(kw_only=True)
    version: int = field(kw_only=True)
    unit: str = field(kw_only=True)


@frozen
class RunHead:
    """A run in short: one board, one release.

    Attributes:
        kind: of measurement, e.g. "boot".
        board_type: e.g. "am62xx_sk".
        board: the one with this name or serial number.
        status: `KILLED` only where the run was listed with its job, see `lab.jobs.listing`.
        finished_at: None while it runs, or when it was killed.
        job_id: of the job that began it; None: unknown, or it was imported.
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
        plan: the requested plan, which a resumed run must repeat.
        provenance: context of its numbers: host, adapter, clock, image hash …
    """

    plan: Json
    provenance: Json

    @property
    def end(self) -> str:
        """The status of a run that does not go on; `killed`: nothing ended it."""
        return KILLED if self.status == "running" else self.status


@frozen
class Retention:
    """Ages in days for removal of a run's parts; 0: never.

    Attributes:
        recordings: of consoles.
        traces: of rails.
        logs: other files of attempts.
        runs: all of a run, with its numbers.
        hold: releases whose runs keep all.
        packed: until the files of a run's attempts become a few zip files; nothing goes.
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
    """Differences between a run's plan and the wanted one, line by line.

    Both are compared as JSON, so a tuple equals the list that the store gives back.
    """
    was, now = json.loads(json.dumps(dict(stored))), json.loads(json.dumps(dict(wanted)))
    absent = "(not given)"
    return [
        f"{key}: the run has {was.get(key, absent)!r}, now it is {now.get(key, absent)!r}"
        for key in sorted(was.keys() | now.keys())
        if was.get(key, absent) != now.get(key, absent)
    ]
