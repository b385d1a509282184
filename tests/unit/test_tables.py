"""The one style of all tables: they fit the screen, nothing is cut off, and bad news are in colour where that is wanted."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab import terminal
from lab.terminal import Marked, bad, doubtful, echo, table

TEXT = st.text(max_size=200) | st.text("ab ", max_size=400) | st.text("测试 é", max_size=60)
COUNT = st.integers(-(10**9), 10**9).map(str)


@st.composite
def whole_tables(draw: st.DrawFn) -> tuple[list[str], list[list[str]], str]:
    """Header, rows and alignment of up to ten columns."""
    align = draw(st.text("<>", min_size=1, max_size=6)) + draw(st.sampled_from(["", "<"]))
    cell = {"<": TEXT, ">": COUNT}
    rows = draw(st.lists(st.tuples(*(cell[side] for side in align)).map(list), max_size=4))
    return draw(st.lists(st.text("abc ", max_size=20), min_size=len(align), max_size=len(align))), rows, align


@given(whole_tables(), st.sampled_from([80, 100, 132]), st.sampled_from([0, 2]))
def test_no_line_is_wider_than_the_screen(
    made: tuple[list[str], list[list[str]], str], room: int, indent: int
) -> None:
    lines = table(*made, indent=indent, room=room)
    assert max(map(terminal.cells, lines)) <= room


@given(whole_tables())
def test_nothing_is_cut_off_or_changes_its_row(made: tuple[list[str], list[list[str]], str]) -> None:
    header, rows, align = made
    pieces = [piece for line in terminal.laid_out([header, *rows], align, 80) for piece in line]
    for number, row in enumerate(rows, start=1):
        for column, cell in enumerate(row):
            its = "".join(piece.text for piece in pieces if (piece.row, piece.column) == (number, column))
            assert its.replace(" ", "") == cell.replace(" ", "")


@given(whole_tables())
def test_a_number_is_in_one_piece(made: tuple[list[str], list[list[str]], str]) -> None:
    header, rows, align = made
    for line in terminal.laid_out([header, *rows], align, 80):
        for piece in line:
            if align[piece.column] == ">" and piece.row:
                assert piece.text == rows[piece.row - 1][piece.column]


@given(whole_tables(), st.integers(-10, 20), st.sampled_from([0, 2]))
def test_a_screen_that_is_too_narrow_for_anything_ends_nobody(
    made: tuple[list[str], list[list[str]], str], room: int, indent: int
) -> None:
    assert table(*made, indent=indent, room=room)


def test_a_table_that_fits_stays_as_it_is() -> None:
    lines = table(["run", "board"], [["7", "am62x-1"]], "><", room=80)
    assert lines == ["run  board", "  7  am62x-1"]


def test_the_last_column_folds_first_and_goes_below_where_there_is_no_room_beside_the_others() -> None:
    text = "The board hangs in SPL, after it has named its medium."
    assert table(["fault", "does"], [["hang_spl", text]], "<<", room=40) == [
        "fault     does",
        "hang_spl  The board hangs in SPL, after",
        "          it has named its medium.",
    ]
    assert table(["fault", "fault of", "does"], [["hang_spl", "the board", text]], "<<<", room=40) == [
        "fault     fault of",
        "        does",
        "hang_spl  the board",
        "        The board hangs in SPL, after it",
        "        has named its medium.",
    ]


def test_other_columns_fold_the_widest_first_and_headings_of_numbers_too() -> None:
    lines = table(["name", "energy of it all", "n"], [["a" * 20, "1234567", "3"]], "<>>", room=30)
    assert lines == [
        "name           energy of it  n",
        "                        all",
        "aaaaaaaaaaaa        1234567  3",
        "aaaaaaaa",
    ]


def test_the_screen_is_80_columns_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("sys.__stdout__", io.StringIO())
    assert terminal.screen_columns() == 80
    monkeypatch.setenv("COLUMNS", "132")
    assert terminal.screen_columns() == 132


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def printed(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *lines: str, **environ: str) -> str:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", **environ}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout", stream)
    echo(*lines)
    return stream.getvalue()


LINES = table(["board", "state"], [["am62x-1", bad("lost")], ["am62x-2", doubtful("late")], ["am62x-3", "ok"]], "<<")


def test_bad_news_are_red_on_a_terminal_and_the_rest_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed(monkeypatch, Screen(), *LINES).splitlines() == [
        "board    state",
        "am62x-1  \x1b[31mlost\x1b[0m",
        "am62x-2  \x1b[33mlate\x1b[0m",
        "am62x-3  ok",
    ]


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}])
def test_who_wants_no_colour_gets_none(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> None:
    assert "\x1b" not in printed(monkeypatch, Screen(), *LINES, **environ)


def test_an_empty_no_color_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[31m" in printed(monkeypatch, Screen(), *LINES, NO_COLOR="")


def test_what_is_no_terminal_gets_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in printed(monkeypatch, io.StringIO(), *LINES)


def test_marks_move_with_their_text_and_are_as_harmless() -> None:
    line = "run 7: " + bad("failed\x1b[2J") + ", " + doubtful("late")
    assert isinstance(line, Marked)
    assert [line[start:end] for start, end, _ in line.marks] == ["failed^[[2J", "late"]
    assert terminal.plain(line) == "run 7: failed^[[2J, late"


def test_a_cell_that_is_folded_is_red_in_every_line() -> None:
    lines = table(["a", "b"], [["x" * 30, bad("one two three four five six seven")]], "<<", room=60)
    marked = [line for line in lines if isinstance(line, Marked)]
    assert len(marked) == 2
    assert " ".join(line[s:e] for line in marked for s, e, _ in line.marks) == "one two three four five six seven"
