"""One full run on the simulated am62xx_sk: every section, the store behind it, and the guide that is written from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import board_rows
import measured_rows
import pytest
from support import guide_family
from support.facts import missing_facts
from support.section_bench import SectionBench, section_bench

from lab.benchmarks.sections import ALL, order
from lab.errors import ConfigurationError
from lab.guide import measurements as sheets
from lab.guide import stored_runs
from lab.guide.catalogue import CellReading
from lab.guide.check.findings import run_rules
from lab.guide.measurements import MeasuredGuide
from lab.guide.read import reader
from lab.guide.rulebook import Severity
from lab.guide.write import footnotes, rst_writer, stored_release, vendor_view, writer
from lab.guide.write.entries import GuideRelease
from lab.metrics import Flag
from lab.results.formatting import console_log
from lab.run.boot import BootRun
from lab.run.progress import Progress

PUBLISHED, WRITTEN = "am62xx_sk-fs", "am62xx_sk-sim"
ELSEWHERE = {"Low Power Performance"}  # its rows come from tests_perf/test_low_power.py


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SectionBench]:
    """A board after one boot cycle and all its sections."""
    with section_bench(tmp_path_factory.mktemp("full")) as bench:
        clock, store = bench.run.clock, bench.store
        begun = store.begin_run(
            "boot", "am62xx_sk", "sim-1", "11.01", plan={"cycles": 2, "media": ["sd"]}, provenance={"virtual": True}
        )
        boots = BootRun(
            store, begun, bench.strategy, Progress(bench.said.append, clock, 2), clock, bench.strategy.sleep, 0
        )
        boots.measure("sd")
        for section in sorted((s for s in ALL if s.fits(bench.strategy.type)), key=order):
            assert bench.run.preflight(section).failed == {}, section.name
            bench.run.measure(section)
        yield bench


@pytest.fixture(scope="module")
def numbers(full: SectionBench) -> GuideRelease:
    """The board's numbers."""
    return stored_release.collect(full.store, "11.01", [])


def rows(one: MeasuredGuide, board: str) -> Mapping[tuple[str, str], set[object]]:
    """(Top chapter, table) -> what its rows are, for one board and for rows that no board can be given."""
    found: dict[tuple[str, str], set[object]] = defaultdict(set)
    for r in one.readings:
        is_other_board = r.board is not None and r.board != board
        is_key = r.cell.metric is not None and r.table.columns[r.cell.column].is_key
        if not is_other_board and not is_key and r.table.chapter[0] not in ELSEWHERE:
            found[r.table.chapter[0], r.table.title.replace("CPSW2g", "CPSW")].add(row(r))
    return found


def row(r: CellReading) -> object:
    """What a row is: its name where the vendor prints it a second time, else what it measures."""
    return (r.cell.row.lower(), "alias") if r.is_alias else r.key


def chapters(one: MeasuredGuide) -> list[str]:
    """The top chapters in their order."""
    return [name for name in dict.fromkeys(t.chapter[0] for t in one.guide.tables) if name not in ELSEWHERE]


def test_every_section_of_the_board_was_measured_and_says_that_it_is_simulated(full: SectionBench) -> None:
    attempts = full.store.attempts(full.run.run.id)
    fitting = {section.name for section in ALL if section.fits(full.strategy.type)}
    assert {attempt.params["section"] for attempt in attempts if attempt.ok} == fitting
    assert all(Flag.SIMULATED in sample.flags for attempt in attempts for sample in attempt.samples)


@pytest.mark.soak
@pytest.mark.parametrize("board_type", sorted({*board_rows.kept()} - {"am62xx_sk"}))
def test_every_other_type_of_board_measures_all_its_sections_too(tmp_path: Path, board_type: str) -> None:
    with section_bench(tmp_path, board_type) as bench:
        fitting = sorted((s for s in ALL if s.fits(bench.strategy.type)), key=order)
        for section in fitting:
            assert bench.run.preflight(section).failed == {}, section.name
            bench.run.measure(section)
        attempts = bench.store.attempts(bench.run.run.id)
        assert all(attempt.ok for attempt in attempts)
        done = [attempt.params["section"] for attempt in attempts if attempt.params.keys() == {"section"}]
        assert done == [section.name for section in fitting]
        first_port = {row for row in board_rows.kept()[board_type] if ("port", "icssg") not in row[1]}
        assert measured_rows.measured(bench) == first_port, "python tools/measured_rows.py writes the rows"
        numbers = stored_release.collect(bench.store, bench.run.run.release, [])
        assert unmarked_errors(footnotes.annotate(numbers)) == []


def test_the_rows_that_are_compared_with_the_guides_are_those_that_are_measured(
    full: SectionBench, tmp_path: Path
) -> None:
    kept = board_rows.kept()
    assert measured_rows.measured(full) == kept["am62xx_sk"], "python tools/measured_rows.py writes the rows"
    assert measured_rows.second_port(tmp_path, "am654x-evm") <= kept["am654x-evm"]


def test_the_written_guide_has_every_chapter_table_and_row_of_the_published_one(
    numbers: GuideRelease, tmp_path: Path
) -> None:
    published = sheets.of_guide(reader.read(guide_family.family(tmp_path)["am62x-11.01.rst"]))
    written = sheets.of_guide(reader.parse("written.rst", rst_writer.write(vendor_view.convert(numbers))))
    assert written.guide.unread == ()
    own = chapters(written)
    assert [name for name in own if name in chapters(published)] == chapters(published)
    missing = {
        table: sorted(map(str, wanted - rows(written, WRITTEN)[table]))
        for table, wanted in rows(published, PUBLISHED).items()
        if wanted - rows(written, WRITTEN)[table]
    }
    assert missing == {}


def test_the_written_guide_says_that_its_numbers_are_simulated_at_its_head_and_after_every_chapter(
    numbers: GuideRelease,
) -> None:
    text = rst_writer.write(numbers)
    mark = "Simulated, and no measurement of a real board: all numbers of am62xx_sk-sim."
    assert text.count(mark) == 1 + len({table.chapter[0] for table in sheet(text).guide.tables})
    assert text.index("Simulated") < text.index("LMBench")


def unmarked_errors(numbers: GuideRelease) -> list[str]:
    """Errors that the rules find in a written guide at numbers without a footnote."""
    text = rst_writer.write(numbers)
    lines = text.splitlines()
    found = (f for f in run_rules(sheet(text)) if f.severity is Severity.ERROR)
    return [
        f.message for f in found if not f.cells or any(f"{c.value.text} [" not in lines[c.line - 1] for c in f.cells)
    ]


def test_the_written_guide_has_no_unmarked_error(full: SectionBench, numbers: GuideRelease, tmp_path: Path) -> None:
    whole = footnotes.annotate(numbers, with_errors=True)
    assert unmarked_errors(numbers) != []
    assert unmarked_errors(whole) == []
    assert any(mark.isdecimal() for entry in whole.entries for mark in map(str, entry.marks))
    assert unmarked_errors(footnotes.annotate(numbers)) == []
    page = next(writer.write(full.store, "11.01", (), tmp_path, ["html"]))
    assert [f.message for f in run_rules(sheets.of_guide(reader.read(page))) if f.severity is Severity.ERROR] == []


def test_the_written_guide_has_the_board_and_the_software_that_booted(
    full: SectionBench, numbers: GuideRelease, tmp_path: Path
) -> None:
    versions = {name: of[WRITTEN] for name, of in numbers.software.items()}
    assert versions["TF-A"].startswith("v2.12")
    assert versions["System firmware"].startswith("11.1.0")
    assert versions["U-Boot"].startswith("2025.01-")
    assert versions["Linux"].startswith("6.12.")
    assert versions["Root file system"] == "Arago 2025.01"
    for path in writer.write(full.store, "11.01", (), tmp_path, ["rst", "html"]):
        (module,) = reader.read(path).modules
        assert (module.name, module.clock_mhz) == ("AM62x SK", 1400.0)
        assert not missing_facts(module.description, "AM62B-SKEVM-P1 rev A", "AM62X SR1.0 HS-FS", "1.4GHz")
        assert all(version in path.read_text() for version in versions.values())


def test_a_simulated_board_never_stands_among_the_numbers_of_a_real_one_of_its_type(full: SectionBench) -> None:
    for name in ("am62xx_sk", PUBLISHED, "am62x-sk-1"):
        with pytest.raises(ConfigurationError, match="has no numbers of board"):
            stored_release.collect(full.store, "11.01", [name])
        assert not any(stored_runs.is_of(run, name) for run in stored_runs.accepted_runs(full.store))


def test_every_number_leads_to_the_line_that_it_was_read_from(full: SectionBench) -> None:
    for attempt in full.store.attempts(full.run.run.id):
        log = console_log(full.store.artifacts, attempt)
        for sample in attempt.samples:
            assert sample.log_start is not None
            assert sample.log_end is not None
            assert 0 < sample.log_start < sample.log_end <= len(log), (attempt.params, sample)
            assert log[sample.log_start - 1 : sample.log_start] == b"\n"
    sha256 = {"section": "openssl", "algorithm": "sha256"}
    (openssl,) = [a for a in full.store.attempts(full.run.run.id) if a.params == sha256]
    found = next(s for s in openssl.samples if s.params == {"algorithm": "sha256", "buffer": "1024"})
    assert found.log_start is not None
    shown = console_log(full.store.artifacts, openssl)[found.log_start : found.log_end].decode()
    assert shown.startswith("SHA256 ")
    assert f"{found.value:.2f}k" in shown


def sheet(text: str) -> MeasuredGuide:
    return sheets.of_guide(reader.parse("written.rst", text))
