"""Turn the raw header and rows of a table into cells.

A row of the header's length gives each cell its column. A row of another length does not: the vendor's tool drops the
cells of a board that has no data and moves the rest to the left, so filling from the left would give a board its
neighbour's numbers. Such cells stay unattributed. Where the table itself tells (the columns that hold the same text in
every full row of a board), the board that a group of cells belongs to is noted as likely, and nothing more.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from attrs import evolve, frozen

from lab.guide.model import Cell, CellKind, Column, Repair, Table, Value, row_unit, value_of

_PER_CORE = re.compile(r"\bper[- ]core\b", re.IGNORECASE)  # of a column: a cell has a number for each core
_MAX_PLACEMENTS = 1000  # of groups of cells on boards; a table with eight boards has at most 70


@frozen
class RawRow:
    """A row of the file: its cells and its first line."""

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
    full = [row for row in raw.rows if len(row.cells) == len(headings)]
    built: list[Cell] = []
    for row in raw.rows:
        if len(row.cells) == len(headings):
            built.extend(_full_row(row, index, headings))
        else:
            built.extend(_other_row(row, index, headings, full))
    title = tuple(text.strip() for text in raw.header)
    return Table(index, raw.chapter, raw.title, raw.title_source, raw.line, title, headings, tuple(built))


def _full_row(row: RawRow, table: int, columns: Sequence[Column]) -> Iterator[Cell]:
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
    unit = column.unit or (row_unit(row.cells[0])[1] if not column.is_key else None)
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
    """Find the likely columns of a short row's cells.

    A choice of boards counts only if it is the only one that fits; without one the result is None. A choice fits where
    every cell agrees with its column's emptiness: a column that is empty in all full rows may not hold a number, and
    one that is never empty must. UDP tables tell that way, since some boards leave the datagram size empty. Without
    such a column there is no choice.
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
    """Metrics of one board, if all boards share them.

    Empty: the boards differ, or the row does not hold a whole number of boards.
    """
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


# --- The header of a table -> its columns ---


# A board as the vendor's test platform files spell it: am62xx_sk-fs, am654x-evm, j721e-idk-gw, am43xx-gpevm.
_BOARD = re.compile(r"[a-z]+\d[a-z0-9]*(?:[-_][a-z0-9.]+)+", re.IGNORECASE)
_PARENTHESES = re.compile(r"\(([^()]*)\)")
_UNIT = re.compile(
    r"(?:in\s+)?(?:%|[kmg]?(?:bits?|bytes?|b)(?:\s*/\s*s(?:ec)?)?|[kmg]bps|mb\\s|[munkmg]?(?:s|sec|w|v|a|hz)|seconds?"
    r"|microsec|nanosec|millisec|fps|kpps|\w+\s*/\s*(?:s|sec)|bytes in hex)",
    re.IGNORECASE,
)
_IN_UNIT = re.compile(r"\bin (seconds|milliseconds|bytes|ms|us|mW)\b")
_SECOND_KEY = re.compile(r"size|voltage|format|resolution|algorithm|direction|\bmode\b", re.IGNORECASE)


def columns(header: Sequence[str], known_boards: Collection[str] = ()) -> tuple[Column, ...]:
    """The columns that a header line declares.

    The first column is a key, and so are the columns without a board left of the first board. A table that names no
    board at all has its first column as key, and what looks like a second one (a size, a nominal voltage).

    Args:
        known_boards: boards that other tables of the guide name; a header cell that is one of them alone is that board.
    """
    split = [_split(text.strip(), known_boards) for text in header]
    first_board = next((i for i, (board, _) in enumerate(split) if board and i > 0), None)
    result = []
    for index, (text, (board, metric)) in enumerate(zip(header, split, strict=True)):
        if first_board is not None:
            is_key = index < first_board
        else:
            is_key = index == 0 or (index == 1 < len(header) - 1 and _SECOND_KEY.search(metric) is not None)
        result.append(Column(text.strip(), None if index == 0 else board, metric, unit(metric), is_key))
    return tuple(result)


def is_board(text: str) -> bool:
    """Return whether a text is spelled like a vendor's board, e.g. "AM62XX-SK"."""
    return _BOARD.fullmatch(text) is not None


def unit(metric: str) -> str | None:
    """The unit that a header's text names, as printed; None without one."""
    for group in reversed(list(_PARENTHESES.finditer(metric))):
        candidate = group[1].strip()
        if _UNIT.fullmatch(candidate):
            return candidate.removeprefix("in ")
    if match := _IN_UNIT.search(metric):
        return match[1]
    return "%" if "%" in metric else None


def _split(text: str, known_boards: Collection[str]) -> tuple[str | None, str]:
    board, colon, metric = text.partition(": ")
    board = board.strip()
    if colon and board and not re.search(r"[\s|]", board) and metric.strip():
        return board, metric.strip()
    board, colon, metric = text.partition(":")
    if colon and metric.strip() and (is_board(board) or board in known_boards):
        return board, metric.strip()
    if text in known_boards or is_board(text):
        return text, ""
    return None, text


# --- Repair of headers, rows and boards' spellings ---
# Every change is reported. Where two readings fit, nothing is changed: the cells of such rows stay unattributed.


_SUBSTITUTION = re.compile(r"\|([^|\s](?:[^|]*[^|\s])?)\|")


def mended(tables: Iterable[RawTable]) -> tuple[list[RawTable], list[Repair]]:
    """Repair the tables whose headers do not fit, and list the repairs.

    A header is changed only where one reading fits; each board gets one spelling.
    """
    found: list[RawTable] = []
    repairs: list[Repair] = []
    for raw in tables:
        table = raw
        for step in (_blank_tails, _split_header, _header_among_rows, _header_width):
            table, changes = step(table)
            repairs += [Repair(table.line, f"table {table.title or 'without a title'!r} {what}") for what in changes]
        found.append(table)
    spelled, said_boards = _one_spelling(found)
    return spelled, [*repairs, *said_boards]


def substituted(raw: RawTable, values: Mapping[str, str]) -> RawTable:
    """Replace the known substitutions `|name|` of a table."""

    def replace(text: str) -> str:
        return _SUBSTITUTION.sub(lambda match: values.get(match[1], match[0]), text)

    return evolve(
        raw,
        title=replace(raw.title),
        chapter=tuple(map(replace, raw.chapter)),
        header=tuple(map(replace, raw.header)),
        rows=tuple(evolve(row, cells=tuple(map(replace, row.cells))) for row in raw.rows),
    )


def unpadded(raw: RawTable) -> RawTable:
    """Remove the empty cells that pad short rows on the right.

    A tool that builds pages adds them. They hide that the vendor's tool moved the cells to the left. Where another row
    has an empty board left of a full one, the table itself marks missing data, and its empty cells stay.
    """
    headings = columns(raw.header)
    groups = _groups(headings)
    full = [row for row in raw.rows if len(row.cells) == len(headings)]
    if len(groups) < 2 or any(_has_hole(row, groups) for row in full):
        return raw
    always = [group for group in groups if not any(row.cells[i].strip() for row in full for i in group)]
    if always:
        return raw
    return evolve(raw, rows=tuple(_short(row, groups) if row in full else row for row in raw.rows))


def _has_hole(row: RawRow, groups: Sequence[Sequence[int]]) -> bool:
    filled = [any(row.cells[i].strip() for i in group) for group in groups]
    return not all(filled[: max((i for i, is_full in enumerate(filled) if is_full), default=-1) + 1])


def _short(row: RawRow, groups: Sequence[Sequence[int]]) -> RawRow:
    empty = list(itertools.takewhile(lambda group: not any(row.cells[i].strip() for i in group), reversed(groups)))
    return evolve(row, cells=row.cells[: empty[-1][0]]) if empty and len(empty) < len(groups) else row


_Step = tuple[RawTable, list[str]]


def _blank_tails(raw: RawTable) -> _Step:
    """Cut empty cells beyond the header, as of rows that end in a comma."""
    width = len(raw.header)
    if not width:
        return raw, []
    rows = tuple(
        row if any(map(str.strip, row.cells[width:])) else evolve(row, cells=row.cells[:width]) for row in raw.rows
    )
    changed = sum(new != old for new, old in zip(rows, raw.rows, strict=True))
    return evolve(raw, rows=rows), [f"has {changed} rows with empty cells beyond its header"] * bool(changed)


def _split_header(raw: RawTable) -> _Step:
    """Split header cells where a comma is missing.

    Such a cell names two boards, or holds a quote where two cells met.
    """
    if not raw.rows or {len(row.cells) for row in raw.rows} == {len(raw.header)}:
        return raw, []
    header = tuple(part for cell in raw.header for part in _parts(cell))
    if header == raw.header or {len(row.cells) for row in raw.rows} != {len(header)}:
        return raw, []
    return evolve(raw, header=header), ["has a header in which a comma is missing"]


def _parts(cell: str) -> list[str]:
    return [part.strip() for part in re.split(r'\s*"+\s*(?=[a-z]+\d\S*: )', cell) if part.strip()] or [cell]


def _header_among_rows(raw: RawTable) -> _Step:
    """No header, and a first row that names boards, is that header."""
    if raw.header or len(raw.rows) < 2:
        return raw, []
    first = raw.rows[0].cells
    if any(_is_number(cell) for cell in first[1:]) or not any(column.board for column in columns(first)):
        return raw, []
    return evolve(raw, header=first, rows=raw.rows[1:]), ["has its header as its first row"]


def _header_width(raw: RawTable) -> _Step:
    """Fix a header if one cell alone can be surplus or missing."""
    widths = {len(row.cells) for row in raw.rows}
    if len(widths) != 1 or not raw.header or len(raw.rows) < 2:
        return raw, []
    (width,) = widths
    header = raw.header
    first = columns(("", header[0]))[1]
    if width == len(header) + 1 and first.board is not None and not any(_is_number(row.cells[0]) for row in raw.rows):
        return evolve(raw, header=("", *header)), ["has no header above its first column"]
    if width == len(header) + 1 and first.board is not None and _is_whole(row.cells[0] for row in raw.rows):
        return evolve(raw, header=("", *header)), ["has no header above its first column"]
    while len(header) > width and not header[-1].strip():
        header = header[:-1]
    if len(header) == width and header != raw.header:
        return evolve(raw, header=header), ["has empty cells at the end of its header"]
    return raw, []


def _is_whole(texts: Iterable[str]) -> bool:
    """Return whether the texts are distinct whole numbers, such as frame sizes."""
    found = list(texts)
    return all(re.fullmatch(r"\d+[kKmM]?", text.strip()) for text in found) and len(set(found)) == len(found)


def _is_number(text: str) -> bool:
    return value_of(text).kind in {CellKind.VALUE, CellKind.RANGE, CellKind.APPROXIMATE}


def _one_spelling(tables: Sequence[RawTable]) -> tuple[list[RawTable], list[Repair]]:
    """Give each board its commonest spelling.

    "AM62XX-SK-FS" and "am62xx_sk-fs" are the same board.
    """
    spellings: dict[str, Counter[str]] = {}
    for board in _boards(tables):
        spellings.setdefault(board.lower().replace("_", "-"), Counter())[board] += 1
    wanted: dict[str, str] = {}
    for counts in spellings.values():
        best = max(counts, key=lambda board: (counts[board], board == board.lower()))
        wanted |= {other: best for other in counts if other != best}
    if not wanted:
        return list(tables), []
    lines = {other: next(raw.line for raw in tables if other in _boards([raw])) for other in wanted}
    repairs = [
        Repair(lines[o], f"board {o!r} is {board!r} in other tables; taken for one") for o, board in wanted.items()
    ]
    return [evolve(raw, header=tuple(map(_respelled(wanted), raw.header))) for raw in tables], repairs


def _boards(tables: Iterable[RawTable]) -> Iterator[str]:
    for raw in tables:
        yield from (column.board for column in columns(raw.header) if column.board)


def _respelled(wanted: Mapping[str, str]) -> Callable[[str], str]:
    def respell(cell: str) -> str:
        board = columns(("", cell))[1].board or ""
        return wanted[board] + cell.strip()[len(board) :] if board in wanted else cell

    return respell
