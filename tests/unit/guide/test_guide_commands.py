"""`lab guide`: what a person sees and what other programs get."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.facts import missing_facts
from support.guide_family import mini, table

from lab.cli import main

CELL = {"table", "row", "board", "metric", "unit", "kind", "value", "min", "max", "text", "line"}
TABLE = {"chapter", "title", "line", "header"}
FINDING = {"rule", "severity", "file", "line", "cell", "message", "corrected"}
ROW = {"board", "metric", "params", "old", "new", "ratio", "verdict", "reason"}

Paths = Mapping[str, Path]
Captured = pytest.CaptureFixture[str]


def lab(*arguments: object) -> int:
    return main(["guide", *map(str, arguments)])


def document(capsys: Captured, *arguments: object) -> Any:
    assert lab(*arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_one_guide_is_one_object_and_several_are_a_list(capsys: Captured, paths: Paths) -> None:
    one = document(capsys, "read", paths["am437x.rst"])
    two = document(capsys, "read", paths["am437x.rst"], paths["am62ax-09.02.rst"])
    assert (len(one["tables"]), len(one["cells"])) == (22, 257)
    assert two[0] == one
    assert [len(guide["tables"]) for guide in two] == [22, 15]


def test_the_json_of_a_guide_has_its_documented_shape(capsys: Captured, paths: Paths) -> None:
    guide = document(capsys, "read", paths["am62x-11.01.rst"])
    assert all(one.keys() >= TABLE for one in guide["tables"])
    assert all(cell.keys() >= CELL for cell in guide["cells"])
    first = next(
        cell for cell in guide["cells"] if cell["row"].startswith("bw_mem-rd-1mb") and cell["board"] == "am62xx_sk-fs"
    )
    assert first["kind"] == "range"
    assert (first["value"], first["min"], first["max"], first["unit"]) == (976.13, 648.72, 1303.54, "MB/s")
    assert guide["tables"][first["table"]]["title"] == "LMBench Benchmarks"
    assert (first["quantity"], first["params"]) == ("lmbench.bw_mem", {"operation": "rd", "size": "1mb"})
    kinds = {cell["kind"] for cell in guide["cells"]}
    assert kinds == {"value", "range", "n/a", "empty", "unattributed"}
    assert guide["unread"] == []
    assert guide["unknown_rows"] == []


def test_csv_has_a_line_for_each_cell(capsys: Captured, paths: Paths) -> None:
    assert lab("read", "--csv", paths["am437x.rst"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 257
    assert rows[0].keys() >= CELL
    assert (rows[0]["row"], rows[0]["value"]) == ("af_unix_sock_stream_latency (microsec)", "34.57")


def test_a_person_gets_the_tables_and_their_sizes(capsys: Captured, paths: Paths) -> None:
    assert lab("read", paths["am62x-11.01.rst"]) == 0
    out = capsys.readouterr().out
    assert not missing_facts(out, "Linux 11.01", "release 11.01")
    assert not missing_facts(
        out, "55 tables", "1549 cells", "1247 value", "251 range", "2 n/a", "25 empty", "24 unattributed"
    )
    assert not missing_facts(out, "Glmark2", "8 cells", "2 unattributed")


def test_an_unknown_row_is_listed(capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "g.rst"
    path.write_text(mini(table("Test,a1-fs: Wobble (turns/s)", "left,10.00", title="Novelty")))
    assert lab("read", path) == 0
    assert not missing_facts(capsys.readouterr().out, "1 rows", "no metric")
    assert document(capsys, "read", path)["unknown_rows"] == [{"table": 0, "row": "left", "line": 13}]


def test_findings_have_their_documented_shape(capsys: Captured, paths: Paths) -> None:
    findings = document(capsys, "check", paths["am62x-11.01.rst"], "--against", paths["am62x-09.02.rst"])["findings"]
    assert all(finding.keys() >= FINDING for finding in findings)
    assert {finding["severity"] for finding in findings} == {"error", "warning", "suspect", "note", "info"}
    assert any(finding["rule"] == "outlier-older" for finding in findings)
    pairing = [f for f in findings if f["rule"] == "lmbench-pairing"]
    assert (pairing[0]["cell"]["board"], pairing[0]["corrected"]) == ("am62xx_lp_sk-fs", 1767.72)


def test_a_person_gets_the_surest_findings_first(capsys: Captured, paths: Paths) -> None:
    assert lab("check", paths["am437x.rst"]) == 0
    short = capsys.readouterr().out
    assert not missing_facts(short, "37 error", "9 warning", "12 info")
    assert "… and 29 more (--all)" in short
    assert lab("check", paths["am437x.rst"], "--all") == 0
    assert capsys.readouterr().out.count("averages bw_mem") == 32


def test_a_check_fails_only_where_it_is_asked_to(capsys: Captured, paths: Paths, tmp_path: Path) -> None:
    assert lab("check", "--exit-code", paths["am437x.rst"]) == 1
    sound = tmp_path / "g.rst"
    sound.write_text(mini(table("Benchmarks,a1-fs: perf", "lat_sem (us),2.98", title="LMBench")))
    capsys.readouterr()
    assert lab("check", "--exit-code", sound) == 0
    assert capsys.readouterr().out == "nothing found\n"
    assert lab("check", "--exit-code", sound, "--against", sound) == 0
    assert "1 of 1 numbers" in capsys.readouterr().out
    other = tmp_path / "other.rst"
    other.write_text(mini(table("Benchmarks,b2-fs: perf", "lat_sem (us),2.98", title="LMBench")))
    assert lab("check", "--exit-code", sound, "--against", other) == 4
    assert capsys.readouterr().out.splitlines()[0].startswith(f"{sound}: 0 of 1 numbers")


def test_a_comparison_has_its_documented_shape(capsys: Captured, paths: Paths) -> None:
    two = (paths["am62x-09.02.rst"], paths["am62x-11.01.rst"])
    rows = document(capsys, "compare", *two)["rows"]
    assert all(row.keys() >= ROW for row in rows)
    assert rows[0]["verdict"] == "regression"
    board = document(capsys, "compare", *two, "--board", "am62xx_sk-fs")["rows"]
    assert {row["board"] for row in board} == {"am62xx_sk-fs", None}


def test_a_person_gets_what_needs_attention(capsys: Captured, paths: Paths) -> None:
    two = (paths["am62x-09.02.rst"], paths["am62x-11.01.rst"])
    assert lab("compare", *two) == 0
    out = capsys.readouterr().out.splitlines()
    assert not missing_facts(out[1], "49 worse", "34 better", "4 suspect", "62 broken")
    assert not missing_facts(out[3], "wrong", "since 09.02.00")
    assert len(out) < 70, "one line a cause"
    assert sum(str(path) in line for path in two for line in out) == 2, "no path repeated"
    assert lab("compare", *two, "--all") == 0
    assert not missing_facts(capsys.readouterr().out, "0.103x", "am62xx_sk-fs", "storage.fio.throughput")


def test_a_comparison_needs_two_guides(capsys: Captured, paths: Paths) -> None:
    assert lab("compare", paths["am437x.rst"]) == 2
    assert not missing_facts(capsys.readouterr().err, "two guides", "older one first")


def test_a_board_that_is_in_no_guide_is_refused_with_those_that_are(capsys: Captured, paths: Paths) -> None:
    assert lab("compare", paths["am437x.rst"], paths["am437x.rst"], "--board", "am62") == 2
    assert not missing_facts(capsys.readouterr().err, "no table", "'am62'", "am43xx-gpevm")


def test_trends_are_printed_and_drawn(capsys: Captured, paths: Paths, tmp_path: Path) -> None:
    files = (paths["am62x-09.02.rst"], paths["am62x-11.01.rst"])
    svg = tmp_path / "boot.svg"
    assert lab("trend", "boot.time", *files, "--board", "am62xx_sk-fs", "--param", "medium=sd", "--svg", svg) == 0
    assert "16.24  (15.96 to 16.42)" in capsys.readouterr().out
    assert svg.exists()
    trends = document(capsys, "trend", "boot.time", *files, "--board", "am62xx_sk-fs")["trends"]
    assert [[p["value"] for p in t["points"]] for t in trends] == [[18.06, 16.24], [3.45]]
    assert lab("trend", "boot.time", *files, "--board", "am62xx_sk-fs", "--param", "medium") == 2
    assert "expected NAME=VALUE" in capsys.readouterr().err


def test_a_bad_file_among_good_ones_costs_only_itself(capsys: Captured, paths: Paths, tmp_path: Path) -> None:
    bad = tmp_path / "bad.rst"
    bad.write_bytes(b"\x00\x01")
    assert lab("read", "--json", paths["am437x.rst"], bad) == 2
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)) == 1
    assert captured.err.startswith("error: ")
    assert not missing_facts(captured.err, "bad.rst:1", "zero byte")


def test_what_was_not_read_is_said_with_its_line(capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "g.rst"
    path.write_text(mini(table("K,a1-fs: Score", "a,1.00", title="T")) + "\n.. include:: other.rst\n")
    assert lab("read", path) == 0
    err = capsys.readouterr().err
    assert err.startswith(f"{path}:")
    assert not missing_facts(err, "not read", "other.rst")


# --- the store ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def boots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Guides of two releases, each with a boot time; and an empty store as the default."""
    monkeypatch.setenv("LAB_DB", str(tmp_path / "results.db"))
    paths = [tmp_path / "10.00.rst", tmp_path / "11.00.rst"]
    for path, cell in zip(paths, ("16.24 (min 15.96, max 16.42)", "12.00 (min 11.90, max 12.10)"), strict=True):
        header = "Boot Configuration,a1-fs: Boot time in seconds"
        path.write_text(mini(table(header, f'Linux boot time from SD,"{cell}"', title="Linux boot time")))
    return paths


def test_imported_releases_are_compared_followed_and_written(
    capsys: Captured, boots: list[Path], tmp_path: Path
) -> None:
    for path in boots:
        assert lab("import", path, "--release", path.stem) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert not missing_facts(first, "run 1", "a1-fs", "10.00", "1 number")
    assert not missing_facts(second, "run 2", "a1-fs", "11.00", "1 number")
    assert lab("import", boots[0], "--release", "10.00") == 0
    assert not missing_facts(capsys.readouterr().out, "run 1", "a1-fs", "10.00", "already")

    (row,) = document(capsys, "compare", "10.00", "11.00")["rows"]
    assert (row["metric"], row["old"], row["new"], row["verdict"]) == ("boot.time", 16.24, 12.0, "improvement")
    (mixed,) = document(capsys, "compare", boots[0], "11.00")["rows"]
    assert mixed["verdict"] == "improvement"

    (trend,) = document(capsys, "trend", "boot.time", "--board", "a1-fs")["trends"]
    assert [(p["release"], p["value"], p["min"]) for p in trend["points"]] == [
        ("10.00", 16.24, 15.96),
        ("11.00", 12.0, 11.9),
    ]

    out = tmp_path / "out"
    assert lab("write", "--release", "11.00", "--board", "a1-fs", "-o", out) == 0
    assert capsys.readouterr().out.split() == [
        str(out / f"performance-guide-11.00.{form}") for form in ("rst", "html")
    ]
    assert document(capsys, "read", out / "performance-guide-11.00.rst")["cells"][0]["value"] == 12.0
    assert lab("write", "--release", "10.00", "--format", "html", "-o", out) == 0
    assert [path.name for path in out.glob("*10.00*")] == ["performance-guide-10.00.html"]


def test_what_an_import_leaves_out_is_said(capsys: Captured, boots: list[Path], paths: Paths) -> None:
    assert boots
    assert lab("import", paths["am62x-11.01.rst"], "--release", "11.01") == 0
    err = capsys.readouterr().err
    assert not missing_facts(err, "24 cells", "no board")
    assert not missing_facts(err, "without a board", "--board")


def test_the_store_says_what_it_has_not(capsys: Captured, boots: list[Path], tmp_path: Path) -> None:
    assert lab("compare", "10.00", "11.00") == 2
    assert "results.db" in capsys.readouterr().err
    assert lab("import", boots[0], "--release", "10.00") == 0
    capsys.readouterr()
    for arguments, message in {
        ("compare", "10.00", "11.00"): "no numbers of release 11.00; there are: 10.00",
        ("compare", "10.00", "none.rst"): "none.rst",
        ("trend", "boot.tyme", "--board", "a1-fs"): "it has: boot.time",
        ("write", "--release", "9.9"): "no numbers of release 9.9; there are: 10.00",
        ("write", "--release", "10.00", "--board", "b"): "release 10.00 has no numbers of board 'b'",
        ("write", "--release", "10.00", "-o", str(boots[0])): "choose another folder with -o",
    }.items():
        assert lab(*arguments) == 2
        captured = capsys.readouterr()
        assert captured.err.startswith("error: ")
        assert message in captured.err
    assert list(tmp_path.glob("performance-guide*")) == []


@pytest.mark.parametrize(
    "count", [2, pytest.param(16, marks=pytest.mark.soak)]
)  # 16 are worth a process for each processor
def test_several_guides_are_imported_at_once(capsys: Captured, boots: list[Path], tmp_path: Path, count: int) -> None:
    files = []
    for number in range(count):
        files.append(tmp_path / f"{number + 1}.01.rst")
        files[-1].write_text(boots[0].read_text().replace("11.01", f"{number + 1}.01"))
    files.insert(1, tmp_path / "missing.rst")
    files.insert(2, tmp_path / "empty.rst")
    files[2].write_text("")
    assert lab("import", *files) == 2
    captured = capsys.readouterr()
    lines = dict(enumerate(captured.out.splitlines(), 1))
    assert list(lines) == list(range(1, count + 1))
    facts = {n: missing_facts(line, f"run {n}:", "a1-fs", f"{n}.01", "title", "1 number") for n, line in lines.items()}
    assert not any(facts.values()), facts
    assert not missing_facts(captured.err, "missing.rst", "cannot be read")
    assert "empty.rst" in captured.err
    (trend,) = document(capsys, "trend", "boot.time", "--board", "a1-fs")["trends"]
    assert len(trend["points"]) == count
    assert lab("import", files[0]) == 0
    assert "imported already" in capsys.readouterr().out


def history_of(folder: Path, values: dict[str, tuple[str, str]]) -> dict[str, Path]:
    """Releases with one row of two boards."""
    paths = {}
    for release, row in values.items():
        one = table(
            "Benchmarks,am62xx_sk-fs: perf,am62xx_lp_sk-fs: perf", f"lat_sem (us),{','.join(row)}", title="LMBench"
        )
        paths[release] = folder / f"{release}.rst"
        paths[release].write_text(mini(one, title=f"Linux {release} Performance Guide"))
    return paths


@pytest.mark.parametrize(
    ("values", "spikes"),
    [
        ({"10.00": ("2.0", "2.0"), "10.01": ("6.0", "2.1"), "11.00": ("2.1", "2.0")}, ["am62xx_sk-fs"]),
        ({"10.00": ("2.0", "2.0"), "10.01": ("6.0", "6.1"), "11.00": ("2.1", "2.0")}, ["am62xx_sk-fs", "am62xx_lp_sk-fs"]),
        ({"10.00": ("2.0", "2.0"), "10.01": ("4.2", "2.1"), "11.00": ("2.1", "2.0")}, ["am62xx_sk-fs"]),  # three times 25 %
        ({"10.00": ("2.0", "2.0"), "10.01": ("4.0", "2.1"), "11.00": ("2.1", "2.0")}, []),  # and less
        ({"10.00": ("2.0", "2.0"), "10.01": ("6.0", "2.1"), "11.00": ("6.1", "2.0")}, []),
        ({"10.00": ("2.0", "2.0"), "10.01": ("6.0", "2.1"), "11.00-rt": ("2.1", "2.0")}, []),
        ({"10.00": ("2.0", "2.0"), "10.01": ("20.0", "2.1"), "11.00": ("9.0", "2.0")}, []),  # the neighbours differ, too
        ({"10.00": ("2.0", "2.0"), "10.01": ("6.0", "2.1")}, []),
    ],
)  # fmt: skip
def test_a_number_that_neither_neighbour_has_is_noted(
    capsys: Captured, boots: list[Path], tmp_path: Path, values: dict[str, tuple[str, str]], spikes: list[str]
) -> None:
    assert boots  # the store is this test's own
    paths = history_of(tmp_path, values)
    for release, path in paths.items():
        assert lab("import", path, "--release", release) == 0
    capsys.readouterr()
    findings = document(capsys, "check", paths["10.01"], "--history")["findings"]
    said = [f for f in findings if f["rule"] == "spike"]
    assert [(f["cell"]["board"], f["severity"]) for f in said] == [(board, "note") for board in spikes]
    assert all(("and so is that of" in f["message"]) == (len(spikes) > 1) for f in said)
    assert [f for f in document(capsys, "check", paths["10.01"])["findings"] if f["rule"] == "spike"] == []


def test_a_history_needs_a_store(capsys: Captured, boots: list[Path]) -> None:
    assert lab("check", boots[0], "--history") == 2
    assert "results.db" in capsys.readouterr().err
