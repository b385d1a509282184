"""A lab's own metrics, from `metrics.toml` or from a test's first call.

A metric is declared once: name, unit, better direction, resolution, definition and its version.
A contradiction is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from attrs import define, evolve, field, frozen

from lab import tomlfile
from lab.errors import ConfigurationError
from lab.metrics import catalogue
from lab.metrics.limits import Limit
from lab.metrics.model import LARGEST, Metric, repr_short

FILE: Final = "metrics.toml"
VALUE: Final = "value"  # the group of a pattern that has a number, in place of a moment
MOMENT_RESOLUTION_S: Final = 1e-4  # of a line of the console, as boot.time's
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)+")
_NAMED: Final = "lower-case words with a dot between them, e.g. camera.first_frame"
_LONGEST_NAME: Final = 100
_LONGEST_UNIT: Final = 30
_LAST_VERSION: Final = 2**31 - 1  # of the store's column
_OF_ANOTHER: Final = re.compile(r"_.*_(uncertainty|samples)$")  # of each metric there is such a family
# Exporters' families, as far as a metric can be called so
_EXPORTED: Final = frozenset(
    {
        *("attempts", "board_health", "board_state", "boot_failure_rate", "disk_free", "disk_size", "flagged_samples"),
        *("limit_outcome", "low_power_failure_rate", "rail_gaps", "rail_rate", "rail_samples", "run_duration"),
        *("verdict_change", "verdict_uncertainty", "build_labels", "label_builds"),
        *("outlet_commands", "outlet_failures"),
    }
)
_WANTED: Final = {
    "unit": "give a text, e.g. s",
    "better": "give lower or higher",
    "resolution": "give the smallest difference that the method shows, a number from 0 on",
    "definition": "give a text",
    "version": "give a whole number from 1 on",
}
# What two declarations of one version must agree on.
_IDENTITY: Final = ("unit", "better", "definition", "resolution")


@frozen
class _Entry:
    """A `[[metric]]` of metrics.toml.

    With a `pattern` it is a moment that each boot is timed to, or the number in the pattern's group `value`.
    """

    name: str
    unit: str | None = None
    better: Literal["lower", "higher"] | None = None
    resolution: float | None = None
    definition: str = ""
    version: int | None = None
    source: str = ""
    limit: tuple[Limit, ...] = ()
    pattern: str | None = None
    command: str | None = None
    since: str | None = None
    timeout_s: float | None = None

    @property
    def moment(self) -> dict[str, Any]:
        """The keys of its moment; {}: it is none."""
        keys = {"pattern": self.pattern, "command": self.command, "since": self.since, "timeout_s": self.timeout_s}
        present = {key: value for key, value in keys.items() if value is not None}
        return {"name": self.name, **present} if present else {}


@frozen
class _File:
    metric: tuple[_Entry, ...] = ()


@define
class Declarations:
    """The metrics and limits that a lab has declared.

    Attributes:
        path: of the file; None: there is none, and tests declare by their first call.
        moments: keys of the boot's own moments and numbers (`lab.run.user_moments`), by metric.
    """

    path: Path | None = None
    metrics: dict[str, Metric] = field(factory=dict)
    limits: dict[str, tuple[Limit, ...]] = field(factory=dict)
    moments: dict[str, dict[str, Any]] = field(factory=dict)

    def metric(
        self,
        name: str,
        *,
        unit: str | None = None,
        better: str | None = None,
        resolution: float | None = None,
        definition: str | None = None,
        version: int | None = None,
    ) -> Metric:
        """The metric of that name, by the file or this call.

        Args are what the call says; None: nothing.

        Raises:
            ConfigurationError: it is declared nowhere, or otherwise; the message names both.
        """
        if not isinstance(name, str):
            raise ConfigurationError(f"measure({name!r}): a metric's name is {_NAMED}")
        declared = self.metrics.get(name)
        check_exported(name, (*self.metrics, *catalogue.names()), f"measure({name!r})")
        arguments = {
            "unit": unit,
            "better": better,
            "resolution": resolution,
            "definition": definition,
            "version": version,
        }
        if declared is None:
            declared = self._first(name, {key: value for key, value in arguments.items() if value is not None})
        wrong = [
            f"{key} {repr_short(value, 40)} here, {getattr(declared, key)!r} there"
            for key, value in arguments.items()
            if value is not None and value != getattr(declared, key)
        ]
        if wrong:
            raise ConfigurationError(
                f"{name} is declared otherwise by {declared.source or self.path}: {'; '.join(wrong)}. Leave it out of "
                "the call, or raise the version of the definition, or give the number another name"
            )
        self.metrics[name] = declared
        return declared

    def _first(self, name: str, arguments: Mapping[str, Any]) -> Metric:
        _check_name(name, f"measure({name!r})")
        lacks = [key for key in ("unit", "better", "resolution") if key not in arguments]
        if lacks:
            raise ConfigurationError(
                f"measure({name!r}) lacks {', '.join(lacks)}: nothing declares this metric. "
                f"Declare it in {FILE} of the lab's folder, or give "
                'them in the call, e.g. unit="s", better="lower", resolution=0.001'
            )
        resolution, version = arguments["resolution"], arguments.get("version", 1)
        if isinstance(arguments["unit"], str):
            _check_unit(arguments["unit"], f"measure({name!r})")
        good = {
            "unit": isinstance(arguments["unit"], str),
            "better": arguments["better"] in {"lower", "higher"},
            "resolution": isinstance(resolution, (int, float)) and 0 <= resolution <= LARGEST,
            "definition": isinstance(arguments.get("definition", ""), str),
            "version": type(version) is int and 1 <= version <= _LAST_VERSION,
        }
        for key, fits in good.items():
            if not fits:
                raise ConfigurationError(
                    f"measure({name!r}): {key} {repr_short(arguments[key], 40)} is none; {_WANTED[key]}"
                )
        return Metric(name=name, **{"definition": "", "source": "a test's first call", **arguments})


def load(path: Path) -> Declarations:
    """Read a metrics.toml.

    Raises:
        ConfigurationError: the file is wrong; the message names the metric and the key.
    """
    declarations = Declarations(path)
    for raw in tomlfile.structure(tomlfile.read(path), _File, path).metric:
        shipped = catalogue.find(raw.name)
        is_moment = bool(raw.moment) and shipped is None
        entry = raw
        if is_moment:
            entry = _complete_number(raw) if has_value(raw.pattern or "") else _complete_moment(raw)
        where = f"{path}: metric {entry.name!r}"
        if entry.name in declarations.limits:
            raise ConfigurationError(f"{where} stands twice; join them")
        declarations.limits[entry.name] = entry.limit
        if is_moment:
            declarations.moments[entry.name] = entry.moment
        if shipped is None:
            check_exported(entry.name, (*declarations.metrics, *catalogue.names()), where)
            declarations.metrics[entry.name] = _own(entry, where)
        elif any(
            value not in {None, ""}
            for value in (entry.unit, entry.better, entry.resolution, entry.definition, *entry.moment)
        ):
            raise ConfigurationError(
                f"{where} is boardlab's own ({shipped.definition}): only limits may be given to it; "
                "call yours otherwise"
            )
    return declarations


def _complete_moment(entry: _Entry) -> _Entry:
    """A moment's entry with what is known of a time."""
    return evolve(
        entry,
        unit=entry.unit or "s",
        better=entry.better or "lower",
        resolution=MOMENT_RESOLUTION_S if entry.resolution is None else entry.resolution,
        definition=entry.definition or moment_definition(entry.pattern or "", entry.since or ""),
    )


def has_value(pattern: str) -> bool:
    """True for a pattern with a group `value`, whose text is a number."""
    try:
        return VALUE in re.compile(pattern).groupindex
    except re.error:
        return False  # a moment's check says what is wrong


def _complete_number(entry: _Entry) -> _Entry:
    place = f"of `{entry.command}`" if entry.command else "of the console, from power on"
    return evolve(
        entry, definition=entry.definition or f"The number in the first line {place} that fits {entry.pattern!r}."
    )


def moment_definition(pattern: str, since: str = "") -> str:
    """The definition of the time to a line of the console."""
    return f"From {since or 'power on'} to the arrival of the last byte of {pattern!r}."


def _own(entry: _Entry, where: str) -> Metric:
    _check_name(entry.name, where)
    if entry.unit is None or entry.better is None or entry.resolution is None:
        lacks = [key for key in ("unit", "better", "resolution") if getattr(entry, key) is None]
        raise ConfigurationError(f"{where} lacks {', '.join(lacks)}; add it")
    _check_unit(entry.unit, where)
    version = 1 if entry.version is None else entry.version
    if not (0 <= entry.resolution <= LARGEST and 1 <= version <= _LAST_VERSION):
        raise ConfigurationError(f"{where}: the resolution is no number from 0 on, or the version none from 1 on")
    return Metric(
        name=entry.name,
        unit=entry.unit,
        better=entry.better,
        definition=entry.definition,
        resolution=entry.resolution,
        source=entry.source or FILE,
        version=version,
    )


def _check_name(name: str, where: str) -> None:
    if catalogue.find(name) is not None:
        raise ConfigurationError(f"{where}: boardlab measures {name} itself; give yours another name")
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise ConfigurationError(f"{where}: a metric's name is {_NAMED}, at most {_LONGEST_NAME} characters")
    if prometheus_name(name) in _EXPORTED or _OF_ANOTHER.search(prometheus_name(name)):
        raise ConfigurationError(
            f"{where}: the exporter has a name of its own like this one, boardlab_{prometheus_name(name)}; "
            "give yours another name"
        )


def _check_unit(unit: str, where: str) -> None:
    if not unit.isprintable() or len(unit) > _LONGEST_UNIT:
        raise ConfigurationError(
            f"{where}: a unit is a symbol of at most {_LONGEST_UNIT} printable characters, e.g. s; "
            f"got {unit[:_LONGEST_UNIT]!r}"
        )


def prometheus_name(name: str) -> str:
    """The name of a metric in Prometheus, without prefix and unit; two metrics must not share one."""
    return name.replace(".", "_")


def check_exported(name: str, others: Iterable[str], where: str) -> None:
    """Refuse a name that is another metric's in Prometheus.

    Raises:
        ConfigurationError: one of `others` is called so there.
    """
    same = next((other for other in others if other != name and prometheus_name(other) == prometheus_name(name)), None)
    if same is not None:
        raise ConfigurationError(
            f"{where}: {name} and {same} have one name in Prometheus, boardlab_{prometheus_name(name)}; "
            "give one of them another"
        )


def differences(stored: Metric, wanted: Metric) -> list[str]:
    """The differences between two declarations of one version."""
    return [
        f"{key} {getattr(wanted, key)!r} here, {getattr(stored, key)!r} in the results"
        for key in _IDENTITY
        if getattr(stored, key) != getattr(wanted, key)
    ]
