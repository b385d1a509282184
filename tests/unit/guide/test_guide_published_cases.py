"""Tables as published guides have them: what is read of them, and what the rules and the comparison say."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support import guide_family
from support.facts import missing_facts

from lab.cli import main
from lab.guide import measurements
from lab.guide.check.findings import run_rules
from lab.guide.measurements import MeasuredGuide
from lab.guide.read import reader
from lab.judge import noise
from lab.judge.baseline import judge_release
from lab.judge.compare import Verdict
from lab.judge.number import Number
from lab.metrics.catalogue import BOOT_TIME
from lab.results.store import open_store


def read(text: str) -> MeasuredGuide:
    return measurements.of_guide(reader.parse("guide.rst", text))


def rules(text: str) -> list[str]:
    return [finding.rule.id for finding in run_rules(read(text))]


def lmbench(**cells: str) -> str:
    rows = "\n".join(f'    "{name} (us)",{value}' for name, value in cells.items())
    return f'.. csv-table:: LMBench Benchmarks\n    :header: "Benchmarks","j7200-evm: perf"\n\n{rows}\n'


@pytest.mark.parametrize(
    "above", ["", "prose before it\n\n", '.. csv-table:: One\n    :header: "a","b"\n\n    "1","2"\n\n']
)
@pytest.mark.parametrize("directive", [".. csv-table::", ".. csv-table:: LMBench Benchmarks"])
@pytest.mark.parametrize("title", ["Table: **LMBench Benchmarks**", "LMBench Benchmarks"])
def test_a_table_right_under_its_title_is_read_and_reported(above: str, directive: str, title: str) -> None:
    block = lmbench(lat_pipe="11.98").replace(".. csv-table:: LMBench Benchmarks", directive)
    sheet = read(f"Guide\n=====\n\n{above}{title}\n{block}")
    (reading,) = sheet.of("lmbench.latency")
    assert reading.number == 11.98
    assert "LMBench Benchmarks" in reading.table.name
    assert reading.cell.line == f"Guide\n=====\n\n{above}{title}\n{block}".count("\n"), "lines are those of the file"
    assert "mended" in [finding.rule.id for finding in run_rules(sheet)]


@pytest.mark.parametrize("seed", range(3))
def test_numbers_of_each_core_are_numbers_of_their_cores(seed: int) -> None:
    dice = random.Random(seed)
    cores = dice.choice([2, 4, 8])
    rows = {name: [dice.randint(1, 99) for _ in range(cores)] for name in ("Minimum", "Average", "Maximum")}
    lines = "\n".join(f'    "{name} (usec)","{",".join(map(str, values))}"' for name, values in rows.items())
    header = '    :header: "Latencies","am62xx_sk:per-core"'
    sheet = read(f"RT Guide\n========\n\n.. csv-table::\n{header}\n\n{lines}\n")
    found = {(r.params["statistic"], r.params["core"]): r.number for r in sheet.of("cyclictest.latency")}
    names = {"Minimum": "min", "Average": "avg", "Maximum": "max"}
    assert found == {
        (names[name], str(core)): value for name, values in rows.items() for core, value in enumerate(values)
    }


@pytest.mark.parametrize(("one", "other", "wrong"), [("11.98", "11.98", False), ("11.98", "11.89", True)])
def test_names_of_one_sample_are_compared_within_their_table(one: str, other: str, wrong: bool) -> None:
    first = lmbench(lat_pipe=one, pipe_latency=other)
    second = lmbench(lat_pipe="10.05", pipe_latency="10.05")
    text = f"Guide\n=====\n\nLMBench\n-------\n\n{first}\nBoards of the RT kernel\n-----------------------\n\n{second}"
    assert ("alias-disagrees" in rules(text)) is wrong


@pytest.mark.parametrize(("cell", "wide"), [("0.48 (min 0.09, max 0.89)", False), ("14.1 (min 1.2, max 31.0)", True)])
def test_a_loss_below_one_percent_may_differ_several_times(cell: str, wide: bool) -> None:
    header = '    :header: "Frame Size(bytes)","am62xx_sk-fs: Packet Loss %"'
    table = f'.. csv-table:: CPSW2g UDP Ingress Throughput possible loss\n{header}\n\n    "1024","{cell}"\n'
    assert ("wide-range" in rules(f"Guide\n=====\n\n{table}")) is wide


@pytest.mark.parametrize("mixed", [False, True])
def test_a_family_that_stands_beside_the_others_is_no_foreign_board(mixed: bool) -> None:
    own = [lmbench(lat_pipe="11.98").replace("Benchmarks\n", f"Benchmarks {n}\n", 1) for n in range(12)]
    foreign = lmbench(lat_pipe="9.1").replace("j7200-evm: perf", "am43xx-gpevm: perf")
    if mixed:
        header = '"Benchmarks","j7200-evm: perf","am43xx-gpevm: perf"'
        foreign = f'.. csv-table:: LMBench Benchmarks\n    :header: {header}\n\n    "lat_pipe (us)","11.9","9.1"\n'
    assert ("foreign-board" in rules("Guide\n=====\n\n" + "\n".join([*own, foreign]))) is not mixed


@pytest.mark.parametrize("kind", ["csv", "page"])
def test_a_document_without_a_known_number_is_never_nothing_found(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / ("guide.rst" if kind == "csv" else "guide.html")
    cells = "<tr><th>Fruit</th><th>Price</th></tr><tr><td>Pears</td><td>3</td></tr><tr><td>Plums</td><td>4</td></tr>"
    page = f"<html><body><h1>Prices</h1><table>{cells}</table></body></html>"
    file.write_text(
        '.. csv-table:: Prices\n    :header: "Fruit","Price"\n\n    "Pears","3"\n' if kind == "csv" else page
    )
    published = str(guide_family.family(tmp_path)["am437x.rst"])
    database = ["--release", "1.0", "--board", "pear-evm", "--db", str(tmp_path / "results.db")]
    name = str(file)
    for command in (
        ["check", name],
        ["check", name, "--json"],
        ["check", published, "--against", name],
        ["import", name, *database],
        ["import", name, *database[2:]],
        ["compare", name, name],
        ["trend", "boot.time", name, "--board", "pear-evm"],
    ):
        assert main(["guide", *command]) == 2
        printed = capsys.readouterr()
        assert not missing_facts(printed.err, "metric of boardlab")
        assert printed.out == "", "nothing is told, or imported, of a document of others"
    with open_store(str(tmp_path / "results.db")) as store:
        assert store.runs() == []


@pytest.mark.parametrize(
    ("values", "crept"),
    [
        ((15.73, 41.19, 13.63, 13.40), False),
        ((15.73, 16.0, 16.1), False),
        ((10.0, 10.3, 10.6, 10.9, 11.2), True),
    ],
)
def test_the_way_back_from_an_outlier_did_not_creep(values: tuple[float, ...], crept: bool) -> None:
    *before, old, new = [Number(f"{n}.0", BOOT_TIME, {"medium": "sd"}, v, None) for n, v in enumerate(values)]
    judged = judge_release(before, old, new, noise.load())
    assert (judged.rule == "crept") is crept
    assert (judged.verdict is Verdict.REGRESSION) is crept
