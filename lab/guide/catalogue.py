"""Printed words -> metrics of boardlab, by the table in catalogue.toml."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources

from attrs import field, frozen

from lab.guide.model import Cell, Guide, Table, row_unit
from lab.metrics import Metric, by_name

_MEDIA = {"mmc": "sd", "mmcsd": "sd", "mmc/sd": "sd", "mmc-sd": "sd", "qspi": "ospi"}
# The words of the guides' titles that differ from boardlab's.
_CORES = {"single": "", "one": "", "dual": "two", "quad": "four", "hexa": "six", "octa": "eight"}
_NUMBERS = ("", "", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_STATISTICS = {"average": "avg", "mean": "avg"}
_PERF = r"^(?:perf(?:ormance)?|results?|values?|)$"  # of a column whose rows name their metrics
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_NO_PARAMETER = re.compile(r"benchmarks?|units?|command used|boot configuration|rail voltage")


@frozen
class _Entry:
    quantity: Metric
    table: re.Pattern[str]
    also: tuple[re.Pattern[str], ...]
    row: re.Pattern[str]
    column: re.Pattern[str]


@frozen
class CellReading:
    """A cell and its metric.

    Attributes:
        quantity: None where the catalogue has no entry: the row is kept as it is.
        params: boardlab's parameters, e.g. {"operation": "rd", "size": "1mb"}.
        is_alias: the vendor prints the same sample under a second name.
    """

    table: Table
    cell: Cell
    quantity: Metric | None
    params: Mapping[str, str] = field(factory=dict)
    is_alias: bool = False

    @property
    def board(self) -> str | None:
        """The board, or the one that an unattributed cell likely belongs to."""
        return self.cell.board or self.cell.likely_board

    @property
    def number(self) -> float | None:
        """The value or average in the cell."""
        return self.cell.number

    @property
    def metric(self) -> str:
        """Name of the metric; empty where the catalogue has none."""
        return self.quantity.name if self.quantity else ""

    @functools.cached_property
    def key(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Key that makes two readings of one board comparable."""
        return self.metric, tuple(sorted(self.params.items()))


@frozen
class Catalogue:
    """The whole table."""

    entries: tuple[_Entry, ...]
    aliases: Mapping[str, str]
    keys: Mapping[str, str]

    def readings(self, guide: Guide) -> Iterator[CellReading]:
        """Every cell of a guide, in order, with its metric.

        An unattributed cell is read as the column that it likely stands under; without one it measures nothing known.
        """
        return without_repetitions(
            reading for table in guide.tables for reading in self.read_cells(table, table.cells)
        )

    def read_cells(self, table: Table, cells: Iterable[Cell]) -> Iterator[CellReading]:
        """Cells of a table, with the metrics that their printed words stand for."""
        text = " | ".join([table.title, *table.chapter]).lower()
        fitting = [(entry, match) for entry in self.entries if (match := entry.table.search(text))]
        for cell in cells:
            yield self._reading(table, cell, fitting, text)

    def as_read(self, metric: str, params: Mapping[str, str], cell: Cell) -> dict[str, str]:
        """Parameters of a written cell, spelled and ordered as a reader of the guide has them."""
        names = [
            name
            for entry in self.entries
            if entry.quantity.name == metric
            for pattern in (entry.column, *entry.also, entry.table, entry.row)
            for name in pattern.groupindex
        ]
        return {
            name: params[name].lower() for name in dict.fromkeys([*self._key_params(cell), *names]) if name in params
        }

    def metrics(self) -> Iterator[Metric]:
        """Every metric that a guide can publish, once."""
        yield from {entry.quantity.name: entry.quantity for entry in self.entries}.values()

    def _reading(
        self, table: Table, cell: Cell, fitting: list[tuple[_Entry, re.Match[str]]], text: str
    ) -> CellReading:
        column = cell.metric if cell.metric is not None else cell.likely_metric
        if column is None or (cell.column < len(table.columns) and cell.metric and table.columns[cell.column].is_key):
            return CellReading(table, cell, None)
        printed = row_unit(cell.row)[0].lower()
        row = self.aliases.get(printed, printed)
        for entry, in_table in fitting:
            in_column = entry.column.search(column.lower())
            in_row = entry.row.fullmatch(row)
            if in_column and in_row:
                matches = [
                    in_column,
                    *(match for also in entry.also if (match := also.search(text))),
                    in_table,
                    in_row,
                ]
                params = self._key_params(cell)
                for name, value in (item for match in matches for item in match.groupdict().items()):
                    params |= {name: normal} if value and (normal := _normal(name, value)) else {}
                return CellReading(table, cell, entry.quantity, params, is_alias=row != printed)
        return CellReading(table, cell, None)

    def _key_params(self, cell: Cell) -> dict[str, str]:
        params = {}
        for header, value in cell.params.items():
            name = row_unit(header)[0].lower()
            if not _NO_PARAMETER.fullmatch(name):
                name = self.keys.get(name, name.replace(" ", "_"))
                params[name] = _normal(name, _THOUSANDS.sub("", value.lower()).removesuffix(" bytes"))
        return params


def without_repetitions(readings: Iterable[CellReading]) -> Iterator[CellReading]:
    """Remove the metric of a reading whose key another cell already has.

    Such a pair means that this catalogue leaves out a word that matters; then the later cells are kept as they are
    printed, and neither is lost or compared with the other. The same words twice are the guide's own repetition.
    """
    first: dict[object, CellReading] = {}
    for reading in readings:
        other = reading
        if reading.quantity is not None and not reading.is_alias and reading.cell.metric is not None:
            other = first.setdefault((reading.board, reading.key), reading)
        is_sound = other is reading or _words(other) == _words(reading)
        yield reading if is_sound else CellReading(reading.table, reading.cell, None)


def _words(reading: CellReading) -> tuple[str, ...]:
    """Printed words that name a cell's metric."""
    texts = (reading.table.title, *reading.table.chapter, reading.cell.metric or "", *reading.cell.params.values())
    return tuple(" ".join(text.lower().split()) for text in texts)


def _normal(name: str, text: str) -> str:
    """Map the spellings of a parameter to one: "Deep Sleep" to "DeepSleep".

    Empty for the usual case, which needs no word: one core, the whole board.
    """
    match name:
        case "mode":
            mode = re.sub(r"[ -]", "", text)
            return re.sub(r"(?<=only)(?:plus|and)", "+", mode).replace("ioonly", "i/oonly")
        case "contexts":
            cores = _NUMBERS[int(text)] if text.isdecimal() and int(text) < len(_NUMBERS) else _CORES.get(text, text)
            return f"{cores}core" if cores else ""
        case "loss":
            return text if text == "possible loss" else "0 loss"
        case "statistic":
            return _STATISTICS.get(text, text)
        case "scope":
            scope = row_unit(text)[0].replace(" ", "-")
            return "" if scope in {"perf", "latency"} else scope
    return _MEDIA.get(text, text)


@functools.cache
def load() -> Catalogue:
    """The catalogue that boardlab ships; read once."""
    text = (resources.files("lab.guide") / "catalogue.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    entries = tuple(
        _Entry(
            quantity=by_name(entry["name"]),
            table=re.compile(entry["table"]),
            also=tuple(re.compile(pattern) for pattern in entry.get("also", ())),
            row=re.compile(entry.get("row", ".*")),
            column=re.compile(entry.get("column", _PERF)),
        )
        for entry in data["metric"]
    )
    return Catalogue(entries, data["aliases"], data["keys"])


def params_text(params: Mapping[str, str]) -> str:
    """Parameters in one word each."""
    return " ".join(f"{name}={value.replace(' ', '_')}" for name, value in params.items())
