"""Farms that are made up: their boards, and what their nights write into the store."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator
from typing import Any, Final

from attrs import field, frozen
from sqlalchemy import Engine, insert

from lab.metrics import by_name
from lab.results.models import AttemptRow, DefinitionRow, JobRow, MeasurementRow, RunRow, SampleRow

STEP_S: Final = 12 * 3600
WEEK_S: Final = 7 * 86400
TYPE: Final = "am62xx_sk-fs"
FAILURE, REGRESSED, MEDIUM = "hang_kernel", "boot.time", "emmc"
RELEASES: Final = ("10.00", "11.01")
_MEDIA: Final = {"emmc": 0.85, "ospi": 1.6, "sd": 1.0}
_STAGES: Final = {"uboot": 0.35, "starting_kernel": 0.74, "first_printk": 0.11, "init": 1.46, "login": 0.92}
_MODES: Final = {"deep_sleep": 12.0, "mcu_only": 19.0}  # mW of a rail
_RAILS: Final = ("VDD_CORE", "VDDR_CORE", "SOC_DVDD_3V3", "DDR_VDD_1V1")
_CYCLES: Final = 4
_NIGHTS_AGO: Final = {"10.00": (7.7, 6.7, 5.7), "11.01": (3.7, 2.7, 1.7, 0.7)}  # days


@frozen
class Farm:
    """A farm to make up.

    Attributes:
        name: of its job in Prometheus. trouble: whether its last night brings a failure, a regression, a lost adapter, and
            a store that cannot be read.
    """

    name: str
    boards: int
    trouble: bool
    now: float

    def board(self, number: int) -> str:
        """The name of a board, as long as people make them."""
        return f"{TYPE}-rack{number // 8 + 1}-shelf{number % 8 + 1}"

    @property
    def failed(self) -> str:
        """The board whose kernel hung."""
        return self.board(41 % self.boards)

    @property
    def slower(self) -> str:
        """The board that boots slower from MEDIUM in the new release."""
        return self.board(17 % self.boards)

    @property
    def gone(self) -> str:
        """The adapter that is not plugged in."""
        return f"{self.board(63 % self.boards)}-console"


@frozen
class Ids:
    runs: Iterator[int] = field(factory=lambda: itertools.count(1))
    attempts: Iterator[int] = field(factory=lambda: itertools.count(1))
    measurements: Iterator[int] = field(factory=lambda: itertools.count(1))


def define(engine: Engine) -> None:
    """The definitions of all metrics that the nights measure."""
    names = {"boot.time", "boot.power_on_to_prompt", "boot.stage", "lmbench.bw_mem", "stream.bandwidth"}
    names |= {f"lpm.{mode}.{what}" for mode in _MODES for what in ("power_rail", "power_total", "resume_kernel")}
    with engine.begin() as connection:
        connection.execute(insert(DefinitionRow), [_definition(name) for name in sorted(names)])


def nights(now: float) -> list[tuple[float, str]]:
    """When each night began, and its release; the oldest first."""
    return sorted((now - days * 86400, release) for release, ages in _NIGHTS_AGO.items() for days in ages)


def when(at: float) -> dt.datetime:
    """A time in seconds since 1970."""
    return dt.datetime.fromtimestamp(at, dt.UTC)


def night(engine: Engine, farm: Farm, ids: Ids, at: float, release: str, *, last: bool) -> None:
    """Write the runs of one night."""
    rows: dict[type, list[dict[str, Any]]] = {
        RunRow: [],
        JobRow: [],
        AttemptRow: [],
        MeasurementRow: [],
        SampleRow: [],
    }
    for n in range(farm.boards):
        board, start = farm.board(n), at + 60 * n
        for kind, minutes in (("boot", 20), ("low_power", 40), ("suite", 55)):
            if kind != "boot" and not last and len(_NIGHTS_AGO[release]) > 3:
                continue  # only once with each release
            run, begun = next(ids.runs), when(start + 60 * minutes - 900)
            own = {"kind": kind, "board_type": TYPE, "board": board, "release": release, "status": "completed"}
            plan = {"cycles": _CYCLES, "media": list(_MEDIA)} if kind == "boot" else {}
            times = {"started_at": begun, "finished_at": when(start + 60 * minutes)}
            rows[RunRow].append({"id": run, **own, "plan": plan, "provenance": {}, **times})
            _measured(rows, farm, ids, run=run, kind=kind, board=board, release=release, at=begun, number=n, last=last)
        job = {"board_type": TYPE, "board": board, "suites": "boot", "done": 1, "env": "e", "release": "", "cycles": 4}
        job |= {"state": "completed", "holder": "", "after_run": 0, "queued_at": when(start)}
        job |= {"options": {}, "person": "", "program": "lab run", "cancelled_by": ""}
        job |= {"priority": 10, "yields_to": "", "request": ""}
        rows[JobRow].append(
            {
                **job,
                **dict.fromkeys(("started_at",), when(start)),
                **dict.fromkeys(("heartbeat_at", "finished_at"), when(start + 1200)),
            }
        )
    with engine.begin() as connection:
        for model, found in rows.items():
            if found:
                connection.execute(insert(model), found)


def _measured(
    rows: dict[type, list[dict[str, Any]]], farm: Farm, ids: Ids, *, run: int, kind: str, board: str, release: str,
    at: dt.datetime, number: int, last: bool,
) -> None:  # fmt: skip
    spread, newer = 1 + number * 37 % 64 / 640, release == RELEASES[1]
    measured: list[tuple[str, dict[str, str], float]] = []
    if kind == "boot":
        for medium, factor in _MEDIA.items():
            worse = (
                1.08 if farm.trouble and newer and (board, medium) == (farm.slower, MEDIUM) else 0.97 if newer else 1.0
            )
            where = {"medium": medium}
            whole = sum(_STAGES.values()) * factor * spread * worse
            measured += [("boot.time", where, whole - 1.1), ("boot.power_on_to_prompt", where, whole)]
            measured += [("boot.stage", {**where, "stage": s}, v * factor * spread) for s, v in _STAGES.items()]
    elif kind == "low_power":
        for mode, mw in _MODES.items():
            measured += [(f"lpm.{mode}.power_rail", {"rail": r}, mw * spread * (i + 1)) for i, r in enumerate(_RAILS)]
            measured += [
                (f"lpm.{mode}.power_total", {}, mw * spread * 10),
                (f"lpm.{mode}.resume_kernel", {}, 130 * spread),
            ]
    else:
        sizes = {"lmbench.bw_mem": 2000.0, "stream.bandwidth": 3300.0}
        measured += [
            (m, {"size": s, "operation": "copy"}, v / spread) for m, v in sizes.items() for s in ("8m", "512k")
        ]
    attempts: dict[str, list[int]] = {}
    failed = kind == "boot" and farm.trouble and last and board == farm.failed
    for medium in _MEDIA if kind == "boot" else ("",):
        attempts[medium] = [next(ids.attempts) for _ in range(_CYCLES)]
        for cycle, attempt in enumerate(attempts[medium], start=1):
            rows[AttemptRow].append(_attempt(attempt, run, cycle, medium, at))
        if failed and medium == MEDIUM:
            rows[AttemptRow].append(
                _attempt(next(ids.attempts), run, 2, medium, at)
                | {"outcome": FAILURE, "fault": "board", "transient": True, "number": 2}
            )
    for metric, params, value in measured:
        measurement = next(ids.measurements)
        version = by_name(metric).version
        rows[MeasurementRow].append(
            {"id": measurement, "run_id": run, "metric": metric, "version": version, "params": params}
        )
        for cycle, attempt in enumerate(attempts[params.get("medium", "")]):
            flags = frozenset(
                {"medium_unverified"} if number % 4 == 0 and cycle == 0 and metric == "boot.time" else ()
            )
            number_of = {
                "measurement_id": measurement,
                "attempt_id": attempt,
                "uncertainty": value / 1e4,
                "flags": flags,
            }
            rows[SampleRow].append({**number_of, "value": value * (1 + (cycle - 1.5) / 500)})


def _attempt(attempt: int, run: int, cycle: int, medium: str, at: dt.datetime) -> dict[str, Any]:
    own = {"id": attempt, "run_id": run, "cycle": cycle, "number": 1, "params": {"medium": medium} if medium else {}}
    how = {"outcome": "ok", "fault": None, "transient": None, "message": "", "started_at": at, "duration_s": 6.0}
    return {**own, **how, "details": {}}


def _definition(name: str) -> dict[str, Any]:
    metric = by_name(name)
    own = {key: getattr(metric, key) for key in ("version", "unit", "better", "definition", "resolution", "source")}
    return {"metric": name, **own}
