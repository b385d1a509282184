"""Rows with more cells than the header."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from lab.guide.catalogue import CellReading
from lab.guide.measurements import MeasuredGuide, group
from lab.guide.model import CellKind, Table, group_reasons
from lab.guide.rulebook import Effect, Remark, Severity, rule
from lab.judge import noise


@rule("overlong-row", "A row with too many cells", Severity.ERROR)
def overlong_row(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find rows with more cells than their header.

    A row with more cells than its header has one too many at an unknown place, e.g. by a comma outside quotes.

    Finding: The rows' cells are unattributed; one error for the rows of a table with the same number of cells. A
    table without a header that could be read is `not-read`'s.
    """
    loose = (r for r in sheet.readings if r.cell.kind is CellKind.UNATTRIBUTED)
    rows = group(loose, lambda r: (r.cell.table, r.cell.line))
    causes: dict[tuple[int, int], list[CellReading]] = {}
    for (table_index, _line), readings in rows.items():
        count = max(r.cell.column for r in readings) + 1
        if count > len(sheet.guide.tables[table_index].columns) > 0:
            causes.setdefault((table_index, count), []).extend(readings)
    for (table_index, count), members in causes.items():
        table = sheet.guide.tables[table_index]
        others = len({r.cell.line for r in members}) - 1
        which = f" and {others} more rows have" if others else " has"
        yield Remark(
            f"row {members[0].cell.row!r}{which} {count} cells, the table has {len(table.columns)} "
            "columns; the values are not attributed",
            members[0],
            also=tuple(members[1:]),
        )


@rule("left-packed", "A row with too few cells", Severity.WARNING)
def left_packed(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find short rows whose cells moved to the left.

    The vendor's export drops the cells of a board without data and moves the rest to the left, in tables with
    several columns a board.

    Finding: The cells of a short row are unattributed: no board, no metric. Where the table's empty columns leave
    one choice of boards it is noted as likely, and comparisons say that they use it.
    """
    loose = (r for r in sheet.readings if r.cell.kind is CellKind.UNATTRIBUTED)
    for (table_index, _line), readings in group(loose, lambda r: (r.cell.table, r.cell.line)).items():
        table = sheet.guide.tables[table_index]
        count = max(r.cell.column for r in readings) + 1
        if count > len(table.columns):
            continue
        boards = list(dict.fromkeys(r.cell.likely_board for r in readings if r.cell.likely_board))
        likely = f"; the columns that a board leaves empty say {' and '.join(boards)}" if boards else ""
        yield Remark(
            f"row {readings[0].cell.row!r} has {count} of {len(table.columns)} cells: a board without data was "
            f"dropped and the rest moved left, so its values are not attributed{likely}",
            readings[0],
            also=readings[1:],
        )


@rule("duplicate-row", "One row twice", Severity.SUSPECT)
def duplicate_row(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find equal rows of one table with different numbers.

    Two rows of one table have the same keys.

    Finding: The later row, where the cells differ. The first one is used.

    Limits: The rows may differ in something that the table does not print.
    """
    attributed = (r for r in sheet.readings if r.cell.metric is not None and r.quantity is not None and not r.is_alias)
    places = group(  # keys without letter case and blanks
        attributed,
        lambda r: (
            r.cell.table,
            r.cell.column,
            tuple((name, " ".join(text.lower().split())) for name, text in r.cell.params.items()),
        ),
    )
    for readings in places.values():
        first = readings[0]
        for other in readings[1:]:
            if other.cell.value.text != first.cell.value.text:
                yield Remark(
                    f"row {other.cell.row!r} stands in line {first.cell.line} too, with {first.cell.value.text}; "
                    "which of the two is meant is not known",
                    other,
                    also=(first,),
                )


_LEAST_NUMBERS = 2


@rule("duplicate-table", "Printed twice", Severity.WARNING)
def duplicate_table(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find tables that repeat another's header and cells.

    A table is copied below another heading, or a row is entered twice in other letters (`MMCSD`, `mmcsd`).

    Finding: A table of two or more numbers with the header and all cells of an earlier one; a row that differs
    from an earlier one in letter case only. Rows with other numbers are `duplicate-row`'s.
    """
    first: dict[object, Table] = {}
    for table in sheet.guide.tables:
        cells = tuple((c.row.lower(), c.column, c.value.text) for c in table.cells)
        if sum(c.number is not None for c in table.cells) < _LEAST_NUMBERS or not any(c.board for c in table.columns):
            continue
        other = first.setdefault((table.header, cells), table)
        if other is not table:
            yield Remark(
                f"table {table.name!r} has the header and the numbers of {other.name!r} in line {other.line}: one of "
                "the two was copied",
                line=table.line,
            )
    rows = group(
        sheet.readings, lambda r: (r.cell.table, r.cell.column, r.cell.row.lower(), tuple(r.cell.params.values())[1:])
    )
    reported: set[tuple[int, int]] = set()
    for readings in rows.values():
        names = {r.cell.row: r for r in readings}
        place = (readings[0].cell.table, readings[0].cell.line)
        if len(names) > 1 and place not in reported and readings[0].cell.metric is not None:
            reported.add(place)
            last = list(names.values())[-1]
            yield Remark(f"is row {readings[0].cell.row!r} of line {readings[0].cell.line} in other letters", last)


@rule("mended", "Malformed, and read all the same", Severity.WARNING)
def mended(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Report repairs of malformed tables.

    docutils drops a csv-table for one flaw: no blank line before the rows, a quote in a cell, the header in the
    title's place, rows without indent. A header may be a cell too long or short, a board spelled in two ways.

    Finding: The flaw and the reading, where only one fits. Where two fit the cells stay unattributed.

    Limits: A row whose quotes do not pair is cut where a quote, a comma and a quote meet.
    """
    for cause in group_reasons(sheet.guide.repairs):
        yield Remark(f"mended: {cause.text}", line=cause.lines[0])


@rule("not-read", "A part that was not read", Severity.WARNING)
def not_read(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Report unread parts; the other rules see the rest only.

    A row fits no reading, a directive names another file, or the rows of a table cannot be told apart.

    Finding: One finding a cause, with its first and last line. The rest of the file is checked.
    """
    for cause in group_reasons(sheet.guide.unread):
        yield Remark(f"not read: {cause.text}", line=cause.lines[0])


_ROUNDING = 0.0101  # average and bound are each rounded to two decimals


@rule("range-order", "The average lies outside its range", Severity.ERROR)
def range_order(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find averages outside their own range.

    An average lies between its minimum and its maximum.

    Finding: An average outside them by more than the rounding of two decimals.
    """
    for reading in sheet.readings:
        value = reading.cell.value
        if value.number is None or value.low is None or value.high is None:
            continue
        if value.low > value.high:
            yield Remark(f"the minimum {value.low:g} is above the maximum {value.high:g}", reading)
        elif not value.low - _ROUNDING <= value.number <= value.high + _ROUNDING:
            yield Remark(
                f"the average {value.number:g} lies outside its range, {value.low:g} to {value.high:g}", reading
            )


_FEW_TABLES = 0.1
_LEAST_TABLES = 8
_FAMILY_LETTERS = 4  # am62, am43, j721


@rule("foreign-board", "A board of another guide", Severity.SUSPECT)
def foreign_board(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find tables with a board of another device family.

    A guide is written from the last one and from those of other families: an AM65x guide has `am43xx-gpevm` in its
    STREAM table.

    Finding: In guides of eight or more tables: a table whose boards are of a family that at most a tenth of the
    tables know. Families that stand side by side in a table are of the guide.

    Limits: A deliberate comparison with another family looks the same.
    """
    tables = [frozenset(c.board for c in t.columns if c.board) for t in sheet.guide.tables]
    families_of_tables = [{board[:_FAMILY_LETTERS] for board in boards} for boards in tables]
    # The guide is of both
    beside = {family for families in families_of_tables if len(families) > 1 for family in families}
    counts = Counter(board for boards in tables for board in boards)
    families = Counter(board[:_FAMILY_LETTERS] for board, count in counts.items() for _ in range(count))
    if len(tables) < _LEAST_TABLES or len(families) < 2:
        return
    for table, boards in zip(sheet.guide.tables, tables, strict=True):
        for board in sorted(boards):
            family = board[:_FAMILY_LETTERS]
            if family not in beside and families[family] <= _FEW_TABLES * len(tables):
                yield Remark(
                    f"table {table.name!r} is of {board}, a board that only this part of the guide knows: likely "
                    "copied from another guide, unless that board was measured here on purpose",
                    line=table.line,
                )


@rule("identifier", "A name printed as a number", Severity.INFO)
def identifier(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find test names printed as numbers.

    GLBenchmark's tests have numbers, which the export prints as 2500005.00.

    Finding: One finding a column. The cells have the kind `identifier` and no value.
    """
    names = (r for r in sheet.readings if r.cell.kind is CellKind.IDENTIFIER)
    for readings in group(names, lambda r: (r.cell.table, r.cell.column)).values():
        first = readings[0]
        yield Remark(
            f"{first.cell.metric!r} names a test and is no result: {first.cell.value.text} is test "
            f"{first.cell.value.text.split('.')[0]}",
            first,
            also=readings[1:],
        )


_LEAST_ROWS = 2


@rule("all-zero", "Nothing but zeros", Severity.ERROR, Effect.BROKEN)
def all_zero(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find columns of zeros.

    Where a pattern does not match the log there is no sample, and the vendor's program stores the average of none
    as 0.

    Finding: A column with zero in all of its rows, two at least. Loads and packet rates are exempt (they are
    rounded), and so are powers.
    """
    results = (r for r in sheet.readings if r.number is not None and r.quantity is not None)
    for readings in group(results, lambda r: (r.cell.table, r.cell.column)).values():
        first = readings[0]
        rounded = noise.load().of(first.metric, first.params).slack > 0  # loads and packet rates may be 0
        if (
            len(readings) < _LEAST_ROWS
            or any(r.number for r in readings)
            or rounded
            or first.metric.startswith("power.")
        ):
            continue
        yield Remark(
            f"all {len(readings)} rows of {first.table.name!r} are zero: the test's output was not understood and no "
            "sample became 0; nothing was measured",
            first,
            also=readings[1:],
        )
