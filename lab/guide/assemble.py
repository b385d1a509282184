"""Header and rows as they stand in the file -> a table whose cells know what they are.

A row of the header's length gives each cell its column. A row of another length does not: the vendor's tool drops the
cells of a board that has no data and moves the rest to the left, so filling from the left would give a board its
neighbour's numbers. Such cells stay unattributed. Where the table itself tells (the columns that hold the same text in
every full row of a board), the board that a group of cells belongs to is noted as likely, and nothing more.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence

from attrs import frozen

from lab.guide import headers
from lab.guide.model import Cell, CellKind, Column, Table, Value
from lab.guide.text import value_of

_MAX_PLACEMENTS = 1000  # of groups of cells on boards; a table with eight boards has at most 70


@frozen
class RawRow:
    """A row as it stands in the file: its cells, and the line where it begins."""

    line: int
    cells: tuple[str, ...]


@frozen
class RawTable:
    """A table as it stands in the file."""

    chapter: tuple[str, ...]
    title: str
    title_source: str
    line: int
    header: tuple[str, ...]
    rows: tuple[RawRow, ...]


def tables(raw_tables: Sequence[RawTable]) -> tuple[Table, ...]:
    """All tables of a guide; a board that one header spells out is recognised in the others."""
    boards = {
        column.board
        for raw in raw_tables
        for column in headers.columns(raw.header)
        if column.board and column.metric  # spelled "board: metric"; a bare board is a guess until then
    }
    return tuple(_table(raw, index, boards) for index, raw in enumerate(raw_tables))


def _table(raw: RawTable, index: int, boards: Collection[str]) -> Table:
    columns = headers.columns(raw.header, boards)
    full = [row for row in raw.rows if len(row.cells) == len(columns)]
    built: list[Cell] = []
    for row in raw.rows:
        if len(row.cells) == len(columns):
            built.extend(_full_row(row, index, columns))
        else:
            built.extend(_other_row(row, index, columns, full))
    title = tuple(text.strip() for text in raw.header)
    return Table(index, raw.chapter, raw.title, raw.title_source, raw.line, title, columns, tuple(built))


def _full_row(row: RawRow, table: int, columns: Sequence[Column]) -> Iterator[Cell]:
    params = {c.text: text.strip() for c, text in zip(columns, row.cells, strict=True) if c.is_key}
    for position in range(1, len(columns)):
        yield _cell(row, table, position, columns[position], params)


def _other_row(row: RawRow, table: int, columns: Sequence[Column], full: Sequence[RawRow]) -> Iterator[Cell]:
    """The cells of a short or overlong row: its key columns stand firm, the others stay unattributed."""
    keys = list(itertools.takewhile(lambda column: column.is_key, columns))
    short = len(row.cells) < len(columns)
    firm = min(len(keys), len(row.cells)) if short else 1
    params = {column.text: text.strip() for column, text in zip(keys[:firm], row.cells, strict=False)}
    table_boards = {column.board for column in columns if column.board}
    only_board = next(iter(table_boards)) if len(table_boards) == 1 else None
    likely = _likely_columns(row, columns, full) if short else None
    pattern = _repeated_metrics(columns, len(row.cells) - len(keys)) if short else []
    for position, text in enumerate(row.cells):
        if position == 0:
            continue
        if position < firm:
            yield _cell(row, table, position, columns[position], params)
            continue
        column = columns[likely[position - firm]] if likely else None
        yield Cell(
            table=table,
            row=row.cells[0].strip(),
            column=position,
            board=only_board,
            metric=None,
            unit=None,
            value=value_of(text),
            line=row.line,
            params=params,
            likely_board=column.board if column else None,
            likely_metric=pattern[(position - firm) % len(pattern)] if pattern else None,
        )


def _cell(row: RawRow, table: int, position: int, column: Column, params: Mapping[str, str]) -> Cell:
    value = value_of(row.cells[position])
    unit = column.unit or (headers.row_unit(row.cells[0])[1] if not column.is_key else None)
    if _holds_identifiers(column) and value.number is not None:
        value = Value(CellKind.IDENTIFIER, value.text)
    return Cell(
        table=table,
        row=row.cells[0].strip(),
        column=position,
        board=column.board,
        metric=column.metric,
        unit=unit,
        value=value,
        line=row.line,
        params=params,
    )


def _holds_identifiers(column: Column) -> bool:
    words = column.metric.lower().split()
    return (
        bool(words) and column.unit is None and (words[-1] in {"id", "identifier"} or words[-2:] == ["test", "number"])
    )


def _likely_columns(row: RawRow, columns: Sequence[Column], full: Sequence[RawRow]) -> list[int] | None:
    """The columns that the cells of a short row come from, if exactly one choice of boards fits; None otherwise.

    A choice fits where every cell agrees with its column's emptiness: a column that is empty in all full rows may not
    hold a number, and one that is never empty must. UDP tables tell that way, since some boards leave the datagram
    size empty. Without such a column there is no choice.
    """
    groups = _groups(columns)
    if len(groups) < 2 or len(full) < 2:
        return None
    size = len(groups[0])
    keys = groups[0][0]
    present, rest = divmod(len(row.cells) - keys, size)
    if rest or not 0 < present < len(groups) or any(len(group) != size for group in groups):
        return None
    fitting = []
    for chosen in itertools.islice(itertools.combinations(groups, present), _MAX_PLACEMENTS):
        places = [column for group in chosen for column in group]
        if all(_fits(text, column, full) for text, column in zip(row.cells[keys:], places, strict=True)):
            fitting.append(places)
    return fitting[0] if len(fitting) == 1 else None


def _repeated_metrics(columns: Sequence[Column], present: int) -> list[str]:
    """The metrics of one board, if all boards have the same and a whole number of boards is present; else nothing."""
    metrics = [[columns[i].metric for i in group] for group in _groups(columns)]
    same = bool(metrics) and all(names == metrics[0] for names in metrics)
    return metrics[0] if same and present > 0 and present % len(metrics[0]) == 0 else []


def _groups(columns: Sequence[Column]) -> list[list[int]]:
    indexed = [(i, c) for i, c in enumerate(columns) if not c.is_key]
    return [[i for i, _ in group] for _, group in itertools.groupby(indexed, key=lambda pair: pair[1].board)]


def _fits(text: str, column: int, full: Sequence[RawRow]) -> bool:
    empty = [not row.cells[column].strip() for row in full]
    if all(empty):
        return not text.strip()
    return any(empty) or bool(text.strip())
