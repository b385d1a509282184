"""Invented guides in every form: the cells read are the cells written, and the findings are the faults planted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import pytest
from hypothesis import assume, given
from support import guide_generator as generator
from support.facts import missing_facts
from support.guide_family import TableText
from support.guide_forms import FORMS
from support.guide_generator import FAULTS, FLAWS, HARMLESS, Generated

from lab.guide import measurements
from lab.guide.check.findings import run_rules
from lab.guide.model import CellKind, Guide
from lab.guide.read import reader
from lab.guide.rulebook import Severity

pytestmark = pytest.mark.filterwarnings("error")


def cells(guide: Guide) -> Mapping[tuple[str, str, str, str], str]:
    found = {}
    for table in guide.tables:
        for cell in table.cells:
            if not table.columns[cell.column].is_key:
                row = " ".join([cell.row, *list(cell.params.values())[1:]])
                found[cell.board or "", table.title, row, cell.metric or ""] = cell.value.text
    return found


@pytest.mark.parametrize("form", FORMS)
@given(guide=generator.guides())
def test_the_cells_read_are_the_cells_written(form: str, guide: Generated) -> None:
    read = reader.parse("guide", FORMS[form](guide.text))
    assert read.format == form
    assert (read.unread, read.repairs) == ((), ())
    assert cells(read) == guide.cells
    assert read.release == "11.01"


@pytest.mark.parametrize("form", FORMS)
@given(guide=generator.guides())
def test_a_sound_guide_has_no_finding_and_every_number_a_metric_of_its_own(form: str, guide: Generated) -> None:
    read = measurements.of_guide(reader.parse("guide", FORMS[form](guide.text)))
    assert [f.message for f in run_rules(read) if f.severity in {Severity.ERROR, Severity.SUSPECT}] == []
    numbers = [r for r in read.readings if r.number is not None and not r.table.columns[r.cell.column].is_key]
    keys = Counter((r.board, r.key) for r in numbers)
    assert [key for key, count in keys.items() if count > 1 or not key[1][0]] == []


@pytest.mark.parametrize("flaw", [*FLAWS, *HARMLESS])
@given(guide=generator.guides(most_tables=3))
def test_a_malformed_table_is_read_and_one_finding_says_so(flaw: str, guide: Generated) -> None:
    assume(len(guide.text.tables) > 1)
    table = next((t for t in guide.text.tables if len(t.lines) > 2 and ": " in t.lines[0].split(",")[1]), None)
    assume(table is not None)
    assert table is not None
    plant: Callable[[str, TableText], str] = {**FLAWS, **HARMLESS}[flaw]
    read = reader.parse("guide", plant(generator.rst(guide), table))
    assert cells(read) == guide.cells
    assert read.unread == ()
    said = [f for f in run_rules(measurements.of_guide(read)) if f.rule.id == "mended"]
    assert len(said) == (flaw in FLAWS)


@given(guide=generator.guides())
def test_the_findings_are_the_faults_planted(guide: Generated) -> None:
    planted: Counter[str] = Counter()
    for plant in FAULTS:
        if (done := plant(guide)) is not None:
            guide, rule = done
            planted[rule] += 1
    read = measurements.of_guide(reader.parse("guide", generator.rst(guide)))
    found = Counter(f.rule.id for f in run_rules(read) if f.severity is Severity.ERROR)
    assert found == planted


def test_a_header_where_the_title_belongs_is_one_cause() -> None:
    rows = "\n".join(f'    "{i}_row","{i}.00"' for i in range(1, 67))
    good = 'T\n=========\n\n.. csv-table:: "Benchmarks","am62xx_sk-fs: perf"\n\n' + rows
    read = reader.parse("guide", good)
    assert [c.kind for t in read.tables for c in t.cells] == [CellKind.VALUE] * 66
    assert {c.board for t in read.tables for c in t.cells} == {"am62xx_sk-fs"}
    assert [f.rule.id for f in run_rules(measurements.of_guide(read))] == ["mended"]


def test_rows_that_no_header_fits_are_one_finding() -> None:
    rows = "\n".join(f'    "row","{i}.00","3"' for i in range(1, 67))
    read = reader.parse(
        "guide", f'T\n====\n\n.. csv-table:: T\n    :header: "Benchmarks","am62xx_sk-fs: perf"\n\n{rows}\n'
    )
    (finding,) = [f for f in run_rules(measurements.of_guide(read)) if f.severity is Severity.ERROR]
    assert finding.rule.id == "overlong-row"
    assert not missing_facts(finding.message, "65 more rows", "3 cells")
    assert len(finding.cells) == 132


@pytest.mark.parametrize(
    ("title", "cores"),
    [
        ("CoreMarkPro Benchmarks", None),
        ("CoreMarkProTwoCore Benchmarks", "twocore"),
        ("CoreMarkPro FourCore", "fourcore"),
        ("CoreMarkPro Quad Core", "fourcore"),
        ("CoreMark-Pro for Two Cores", "twocore"),
        ("CoreMarkProEightCore Benchmarks", "eightcore"),
        ("CoreMarkPro 12 Cores", "twelvecore"),
        ("CoreMarkPro 20Core", "20core"),
    ],
)
def test_coremark_pro_has_any_number_of_cores(title: str, cores: str | None) -> None:
    text = f'T\n====\n\n.. csv-table:: {title}\n    :header: "Benchmarks","am62xx_sk-fs: perf"\n\n    "core (workloads/)","1.00"\n'
    (r,) = measurements.of_guide(reader.parse("guide", text)).readings
    assert (r.metric, r.params.get("contexts")) == ("coremark_pro.rate", cores)


def test_cells_under_other_words_never_share_a_key() -> None:
    tables = "\n\n".join(
        f'.. csv-table:: {title}\n    :header: "Benchmarks","am62xx_sk-fs: perf"\n\n    "linpack (Kflops)","{value}"'
        for title, value in (("Linpack", "300.00"), ("Linpack with another compiler", "200.00"))
    )
    readings = measurements.of_guide(reader.parse("guide", f"T\n====\n\n{tables}\n")).readings
    assert [(r.metric, r.number) for r in readings] == [("linpack.rate", 300.0), ("", 200.0)]
