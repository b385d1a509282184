"""Turn the raw header and rows of a table into cells.

A row of the header's length gives each cell its column. A row of another length does not: the vendor's tool drops the
cells of a board that has no data and moves the rest to the left, so filling from the left would give a board its
neighbour's numbers. Such cells stay unattributed. Where the table itself tells (the columns that hold the same text in
every full row of a board), the board that a group of cells belongs to is noted as likely, and nothing more.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set

from attrs import evolve

from lab.guide.model import Cell, CellKind, Column, Table, Unread, Value, row_unit, value_of
from lab.guide.read.raw_table import RawRow, RawTable, column_groups, columns

_PER_CORE = re.compile(r"\bper[- ]core\b", re.IGNORECASE)  # of a column: a cell has a number for each core
_FIGURES = re.compile(r"[^A-Za-z]*\d[^A-Za-z]*")
_BEGINS_WITH_FIGURE = re.compile(r"[^A-Za-z]*\d.*")
_UNIT_COLUMN = re.compile(r"units?", re.IGNORECASE)
_NO_RESULT = re.compile(r"\d+(?:\.\d+){2,}|\d{4}-\d\d-\d\d")  # a version, a day
_MAX_PLACEMENTS = 1000  # of groups of cells on boards; a table with eight boards has at most 70


def tables(raw_tables: Sequence[RawTable]) -> tuple[Table, ...]:
    """Assemble all tables of a guide.

    A board that one header spells out is recognised in the other headers.
    """
    boards = {
        column.board
        for raw in raw_tables
        for column in columns(raw.header)
        if column.board and column.metric  # spelled "board: metric"; a bare board is a guess until then
    }
    return tuple(_table(raw, index, boards) for index, raw in enumerate(raw_tables))


def _table(raw: RawTable, index: int, boards: Collection[str]) -> Table:
    headings = columns(raw.header, boards)
    heading = next((text for text in (raw.title, *reversed(raw.chapter)) if text in boards), None)
    if heading and not any(column.board for column in headings):
        headings = tuple(column if column.is_key else evolve(column, board=heading) for column in headings)
    full = [row for row in raw.rows if len(row.cells) == len(headings)]
    cells: list[Cell] = []
    for row in raw.rows:
        whole = len(row.cells) == len(headings)
        cells += row_cells(row, index, headings) if whole else _other_row(row, index, headings, full)
    title = tuple(text.strip() for text in raw.header)
    return Table(index, raw.chapter, raw.title, raw.title_source, raw.line, title, headings, tuple(cells))


def row_cells(row: RawRow, table: int, columns: Sequence[Column]) -> Iterator[Cell]:
    """Yield the cells of a row that has a text for each column."""
    params = {c.text: text.strip() for c, text in zip(columns, row.cells, strict=True) if c.is_key}
    for position in range(1, len(columns)):
        cell = _cell(row, table, position, columns[position], params)
        parts = cell.value.text.split(",") if _PER_CORE.search(columns[position].metric) else []
        values = [value_of(part) for part in parts]
        if len(values) < 2 or any(value.number is None for value in values):
            yield cell
            continue
        for core, value in enumerate(values):
            yield evolve(cell, value=value, params={**params, "core": str(core)})


def _other_row(row: RawRow, table: int, columns: Sequence[Column], full: Sequence[RawRow]) -> Iterator[Cell]:
    """Yield the cells of a short or overlong row.

    Its key columns are certain; the other cells stay unattributed.
    """
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
    of_row = next((text for name, text in params.items() if _UNIT_COLUMN.fullmatch(name)), None)
    unit = value.unit or column.unit or of_row or (row_unit(row.cells[0])[1] if not column.is_key else None)
    words = column.metric.lower().split()
    names_test = words[-1:] in (["id"], ["identifier"]) or words[-2:] == ["test", "number"]
    if names_test and column.unit is None and value.number is not None:
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


def _likely_columns(row: RawRow, columns: Sequence[Column], full: Sequence[RawRow]) -> list[int] | None:
    """Find the likely columns of a short row's cells.

    A choice of boards counts only if it is the only one that fits; without one the result is None. A choice fits where
    every cell agrees with its column's emptiness: a column that is empty in all full rows may not hold a number, and
    one that is never empty must. UDP tables tell that way, since some boards leave the datagram size empty. Without
    such a column there is no choice.
    """
    groups = column_groups(columns)
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
    """Metrics of one board, if all boards share them.

    Empty: the boards differ, or the row does not hold a whole number of boards.
    """
    metrics = [[columns[i].metric for i in group] for group in column_groups(columns)]
    same = bool(metrics) and all(names == metrics[0] for names in metrics)
    return metrics[0] if same and present > 0 and present % len(metrics[0]) == 0 else []


def _fits(text: str, column: int, full: Sequence[RawRow]) -> bool:
    empty = [not row.cells[column].strip() for row in full]
    if all(empty):
        return not text.strip()
    return any(empty) or bool(text.strip())


def unclear_cells(tables: Iterable[Table], unread_lines: Set[int] = frozenset()) -> Iterator[Unread]:
    """Tables without a header, and cells of figures that are no number in a known form.

    Args:
        unread_lines: a table with such a line above its cells has a header that could not be read.
    """
    for table in tables:
        if not table.columns and any(cell.number is not None for cell in table.cells):
            if not unread_lines.isdisjoint(range(table.line, table.cells[0].line)):
                continue
            rows = len({cell.line for cell in table.cells})
            yield Unread(table.line, f"a table has no header that could be read: {rows} rows of {table.name!r}")
            continue
        numbers = {cell.column for cell in table.cells if cell.number is not None}
        for cell in table.cells:
            text = cell.value.text
            figures = _BEGINS_WITH_FIGURE if cell.column in numbers else _FIGURES
            is_result = cell.board is not None or cell.column in numbers
            if cell.kind is CellKind.TEXT and is_result and figures.fullmatch(text) and not _NO_RESULT.fullmatch(text):
                yield Unread(
                    cell.line, f"a cell holds figures, but no number in a known form: {cell.row[:40]}, {text[:40]!r}"
                )
