"""Broken, hostile and foreign files: one clear error, or a partial read that says what was not read."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from docutils.parsers.rst import directives
from hypothesis import given
from hypothesis import strategies as st
from support.facts import missing_facts
from support.guide_family import figures, mini, table, text

from lab.errors import ConfigurationError
from lab.guide.model import CellKind, Guide
from lab.guide.read import reader, rst

GOOD = mini(table("Benchmark,am62xx_sk-fs: Score", "Glmark2-DRM,61.00", title="Glmark2"))


def read(folder: Path, content: str | bytes) -> Guide:
    path = folder / "guide.rst"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return reader.read(path)


def refused(folder: Path, content: str | bytes) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read(folder, content)
    return str(caught.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.rst.*No such file"):
        reader.read(tmp_path / "none.rst")
    with pytest.raises(ConfigurationError, match=r"read: Is a directory"):
        reader.read(tmp_path)


def test_a_file_of_100_mb_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "guide.rst"
    with path.open("wb") as file:
        file.truncate(100_000_000)
    with pytest.raises(ConfigurationError, match="larger than 8192 KiB"):
        reader.read(path)


def test_restructuredtext_of_a_megabyte_is_refused_before_docutils_sees_it(tmp_path: Path) -> None:
    path = tmp_path / "guide.rst"
    path.write_text(".. csv-table:: T\n\n" + '   "a","1.00"\n' * 80_000)
    with pytest.raises(ConfigurationError, match="larger than 512 KiB"):
        reader.read(path)


def test_a_device_without_end_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="larger than 8192 KiB"):
        reader.read(Path("/dev/zero"))


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    assert not missing_facts(refused(tmp_path, b"\x7fELF\x02\x01\x01\x00" + GOOD.encode()), "guide.rst:1", "zero byte")


def test_another_encoding_is_refused_with_its_line(tmp_path: Path) -> None:
    message = refused(tmp_path, "Guide\n=====\n\nCoreMark®-Pro\n".encode("latin-1") + GOOD.encode())
    assert not missing_facts(message, "guide.rst:4", "0xae", "UTF-8")
    assert "iconv" in message


def test_a_byte_order_mark_is_understood(tmp_path: Path) -> None:
    for encoding in ("utf-8-sig", "utf-16"):
        assert len(read(tmp_path, GOOD.encode(encoding)).tables) == 1


@pytest.mark.parametrize(
    "content", ["", "\n\n", "just prose", "# Markdown\n\n| a | b |\n", "Guide\n=====\n\nprose\n", '{"json": 1}']
)
def test_a_file_without_tables_is_refused(tmp_path: Path, content: str) -> None:
    assert not missing_facts(refused(tmp_path, content), "no table")


def test_a_broken_row_costs_that_row_only(tmp_path: Path) -> None:
    text = mini(table("Benchmark,am62xx_sk-fs: Score", "a,1.00", "b,2.00", "c,3.00", title="T"))
    guide = read(tmp_path, text.replace('"b","2.00"', '"b"2.00'))
    assert [(c.row, c.number) for c in guide.tables[0].cells] == [("a", 1.0), ("c", 3.0)]
    (lost,) = guide.unread
    assert text.split("\n")[lost.line - 1].strip() == '"b","2.00"'
    assert not missing_facts(lost.reason, "not a row", "comma-separated")
    assert '"b"2.00' in lost.reason


@pytest.mark.parametrize("row", ['"b","2.00', '"b" ,"2.00"', '"say "b"","2.00"', '"b"","2.00"'])
def test_a_row_whose_quotes_do_not_pair_is_cut_where_two_cells_meet(tmp_path: Path, row: str) -> None:
    text = mini(table("Benchmark,am62xx_sk-fs: Score", "a,1.00", "b,2.00", "c,3.00", title="T"))
    guide = read(tmp_path, text.replace('"b","2.00"', row))
    assert [c.number for c in guide.tables[0].cells] == [1.0, 2.0, 3.0]
    assert guide.unread == ()
    assert ["quotes do not pair" in part.reason for part in guide.repairs] == [True]


def test_a_header_without_its_last_quote_is_read_and_said(tmp_path: Path) -> None:
    guide = read(tmp_path, GOOD.replace('"am62xx_sk-fs: Score"', '"am62xx_sk-fs: Score'))
    assert [(c.number, c.board) for c in guide.tables[0].cells] == [(61.0, "am62xx_sk-fs")]
    assert guide.unread == ()
    assert ["quotes do not pair" in part.reason for part in guide.repairs] == [True]


def test_a_broken_header_leaves_every_cell_unattributed(tmp_path: Path) -> None:
    guide = read(tmp_path, GOOD.replace('"am62xx_sk-fs: Score"', '"am62xx_sk-fs"Score'))
    assert [(c.number, c.kind) for c in guide.tables[0].cells] == [(61.0, CellKind.UNATTRIBUTED)]
    (lost,) = guide.unread
    assert "the header of this table" in lost.reason


def test_a_directive_that_docutils_cannot_read_is_named(tmp_path: Path) -> None:
    broken = GOOD.replace("    :header:", "    header without colons\n    :header:")
    guide = read(
        tmp_path, GOOD + '\n.. csv-table:: Second\n   :header: "K","a1-fs: Score"\n   no blank line\n' + broken
    )
    assert guide.tables[0].cells[0].number == 61.0
    assert not missing_facts(guide.repairs[0].reason, "'Second'", "no blank line", "options")


@pytest.mark.parametrize(
    "directive",
    [
        ".. include:: {secret}",
        ".. include:: {secret}\n   :literal:",
        ".. literalinclude:: {secret}",
        ".. raw:: html\n   :file: {secret}",
        ".. raw:: html\n   :url: file://{secret}",
        ".. csv-table:: T\n   :file: {secret}",
        ".. csv-table:: T\n   :url: file://{secret}",
    ],
)
def test_no_directive_opens_another_file(tmp_path: Path, directive: str) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text('"key","s3cr3t"\n')
    guide = read(tmp_path, GOOD + "\n" + directive.format(secret=secret) + "\n")
    assert "s3cr3t" not in repr(guide)
    assert [part for part in guide.unread if str(secret) in part.reason or "raw" in part.reason]
    assert len(guide.tables) == 1


def test_no_directive_reaches_the_network(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x.csv"
        guide = read(
            tmp_path,
            f"{GOOD}\n.. csv-table:: T\n   :url: {url}\n\n.. raw:: html\n   :url: {url}\n\n.. image:: {url}\n",
        )
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert len(guide.unread) == 2


def test_a_system_file_is_refused_by_name_and_not_shown(tmp_path: Path) -> None:
    (lost,) = read(tmp_path, GOOD + "\n.. csv-table:: T\n   :file: /etc/passwd\n").unread
    assert "/etc/passwd" in lost.reason
    assert "root:" not in lost.reason


BOMBS = {
    "deep list": "Guide\n=====\n\n" + "- " * 4000 + "x\n",
    "deep quotation": "Guide\n=====\n\n" + "\n\n".join(" " * n + "x" for n in range(1, 2000)) + "\n",
    "deep directives": "Guide\n=====\n\n" + "\n\n".join("   " * n + ".. note::" for n in range(1500)) + "\n",
    "billion laughs": "Guide\n=====\n\n.. |a0| replace:: ha\n"
    + "".join(f".. |a{n}| replace:: |a{n - 1}||a{n - 1}|\n" for n in range(1, 60))
    + "\n|a59|\n",
    "open emphasis": "Guide\n=====\n\n" + "*a `b |c **d " * 5000 + "\n",
    "open quotes": 'Guide\n=====\n\n.. csv-table:: T\n   :header: "a","b"\n\n' + '   "x\n' * 5000,
    "many brackets": 'Guide\n=====\n\n.. csv-table:: T\n   :header: "a","'
    + "(" * 9000
    + '"\n\n   "'
    + "(" * 9000
    + '","1"\n',
    "blanks in a cell": 'Guide\n=====\n\n.. csv-table:: T\n   :header: "a","b"\n\n   "k","1' + " " * 9000 + '(x"\n',
    "many directives": "Guide\n=====\n\n" + ".. csv-table::\n\n" * 5000,
    "same title": "".join(f"{'=' * (4 + n % 50)}\nTitle\n{'=' * (4 + n % 50)}\n\n" for n in range(1000)),
}


@pytest.mark.timeout(30)
@pytest.mark.parametrize("bomb", sorted(BOMBS))
def test_a_bomb_is_read_or_refused_but_does_not_go_off(tmp_path: Path, bomb: str) -> None:
    try:
        guide = read(tmp_path, BOMBS[bomb] + "\n" + GOOD)
    except ConfigurationError as error:
        assert "guide.rst" in str(error)  # noqa: PT017 - both outcomes are sound
    else:
        assert guide.tables or guide.unread


def test_a_line_without_end_is_left_out_and_said(tmp_path: Path) -> None:
    guide = read(tmp_path, GOOD + "\n" + "x" * 50_000 + "\n")
    assert len(guide.tables) == 1
    assert [part.line for part in guide.unread] == [GOOD.count("\n") + 2]


def test_docutils_gets_its_directives_back() -> None:
    before = vars(directives)["_directives"]
    rst.read("g", GOOD)
    assert vars(directives)["_directives"] is before


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.77, 0.95])
@pytest.mark.parametrize("name", ["am437x.rst", "am65x-09.03-rt.txt"])
def test_a_truncated_guide_gives_what_it_has(tmp_path: Path, name: str, share: float) -> None:
    whole = text(figures(name))
    path = tmp_path / name
    path.write_text(whole[: int(len(whole) * share)], encoding="utf-8")
    guide = reader.read(path)
    assert 0 < len(guide.tables) <= 22
    full = tmp_path / f"full-{name}"
    full.write_text(whole, encoding="utf-8")
    complete = reader.read(full)
    for cut, all_of_it in zip(guide.tables[:-1], complete.tables, strict=False):
        assert [c.value for c in cut.cells] == [c.value for c in all_of_it.cells]


_FRAGMENT = st.sampled_from(
    [
        *(
            ".. csv-table:: T\n",
            '    :header: "a","am62xx_sk-fs: perf"\n',
            "\n",
            '    "a","1.00"\n',
            '    "b\n',
            "Title\n=====\n",
            "----\n",
        ),
        *(
            "Table:  **T**\n",
            "Table 2.1 T\n",
            "* - x\n",
            "  - y\n",
            ".. list-table::\n",
            "   :header-rows: 1\n",
            "+--+--+\n",
            "|a |b |\n",
            "+==+==+\n",
        ),
        *(
            "== ==\n",
            "a  b\n",
            ".. include:: /etc/passwd\n",
            ".. raw:: html\n",
            "::\n",
            "    code\n",
            "| x\n",
            ".. rubric:: R\n",
            ".. |x| image:: y\n",
        ),
        *(
            "`",
            "**",
            "_",
            ":ref:`",
            "  ",
            "\t",
            "1. a\n",
            ".. _t: u\n",
            ".. [1] f\n",
            "__ x\n",
            ".. \n",
            ".. table:: T\n\n",
            "x\n",
            "é\n",
            "\x0b",
            "\x85",
        ),
    ]
)


@given(st.lists(_FRAGMENT, max_size=40).map("".join) | st.text(max_size=300))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.rst"
    path.write_text(content, encoding="utf-8", errors="surrogatepass")
    try:
        guide = reader.read(path)
    except ConfigurationError:
        return
    count = content.count("\n") + 1
    assert all(0 <= part.line <= count for part in guide.unread)
    assert all(1 <= cell.line <= count for one in guide.tables for cell in one.cells)


@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.bin"
    path.write_bytes(b".. csv-table::\n" + content)
    try:
        reader.read(path)
    except ConfigurationError as error:
        assert str(path) in str(error)  # noqa: PT017 - both outcomes are sound


ROWS = """\
.. csv-table:: Stream Benchmarks
    :header: "Benchmarks","am62xx_sk-fs: perf","am62xx_lp_sk-fs: perf"

    "add (MB/s)","1447.90","1415.00"
    "copy (MB/s)","1638.00","1455.40"
"""


@pytest.mark.parametrize(
    ("right", "wrong", "line"),
    [
        (".. csv-table::", ".. csv-table:", 4),
        (".. csv-table::", "..csv-table::", 4),
        (".. csv-table::", ". csv-table::", 4),
        ("    ", "\N{NO-BREAK SPACE}   ", 4),
        ('    "copy', '"copy', 5),
        ('    "copy', 'Text.\n\n    "copy', 7),
        ('copy (MB/s)","', 'copy (MB/s)""', 5),
        ("1638.00", "16\n    38.00", 5),
        ("1638.00", "1.638,00", 5),
        ("1638.00", "16 / 38", 5),
        ("1638.00", "4,4,5,4", 5),
    ],
)
def test_no_number_vanishes_without_a_word(right: str, wrong: str, line: int) -> None:
    assert not (whole := reader.parse("am62x.rst", ROWS)).unread + whole.repairs
    guide = reader.parse("am62x.rst", f"{ROWS.replace(right, wrong)}\nText.\n\n{ROWS.replace('Stream', 'Other')}")
    assert line in {part.line for part in (*guide.unread, *guide.repairs)}


@pytest.mark.parametrize("version", ["6.12.57", "2024-03-01", "Rev B2"])
def test_a_cell_that_is_meant_as_text_is_no_lost_number(version: str) -> None:
    guide = reader.parse("am62x.rst", ROWS.replace("1638.00", version))
    assert (guide.unread, guide.tables[0].cells[2].value.text) == ((), version)


def test_the_rows_of_a_markdown_table_in_restructured_text_are_named() -> None:
    rows = "Buffer | am62xx_sk-fs: Write (MB/s)\n------ | --------------------------\n1m | 59.7\n4m | 59.9\n"
    guide = reader.parse("am62x.rst", f"{ROWS}\n{rows}\nA |NAME| of 3 words.\n")
    first = ROWS.count("\n") + 4
    assert [part.line for part in guide.unread] == [first, first + 1]


def test_a_commented_table_has_no_results() -> None:
    hidden = "\n".join(f"    {row}" for row in ROWS.splitlines())
    guide = reader.parse(
        "am62x.rst", f"{ROWS}\n..\n{hidden}\n\nExample::\n\n{hidden}\n\n.. code-block:: rst\n\n{hidden}\n"
    )
    assert (guide.unread, guide.repairs, len(guide.tables)) == ((), (), 1)
