"""Guides in the store, and the guide that is written from it."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pytest
from attrs import evolve
from docutils.core import publish_string
from hypothesis import example, given
from hypothesis import strategies as st
from support import guide_family, recorded_run
from support.guide_family import GuideText, import_guide, mini, table
from support.guide_family import write_rst as write_rst_of

from lab.errors import ConfigurationError, TestStableError
from lab.guide import layout, measurements
from lab.guide.check import importer
from lab.guide.compare import comparison as compare
from lab.guide.measurements import MeasuredGuide
from lab.guide.model import Guide
from lab.guide.read import reader
from lab.guide.read.markup import escaped, unescaped
from lab.guide.write import compose, page, rst_writer, stored_release, writer
from lab.guide.write.entries import EntryProvenance, GuideEntry, GuideRelease, Origin
from lab.judge.store import review
from lab.metrics import by_name
from lab.results import AttemptRecord, Run, Store, open_store
from lab.results.records import SampleRecord

NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
SK = "am62xx_sk-fs"
RELEASES = {
    "am62x-11.01.rst": "11.01",
    "am62x-09.02.rst": "09.02",
    "am437x.rst": "6.3",
    "am62ax-09.02.rst": "09.03",
    "am65x-09.03-rt.txt": "10.00",
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "results.db")) as opened:
        yield opened


@pytest.fixture(scope="module")
def folder(paths: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with all five guides; copied by whoever adds to it."""
    folder = tmp_path_factory.mktemp("library")
    with open_store(str(folder / "results.db")) as opened:
        for name, release in RELEASES.items():
            put(opened, paths[name], release, SK if name == "am62x-11.01.rst" else None)
    return folder


@pytest.fixture(scope="module")
def library(folder: Path) -> Iterator[Store]:
    with open_store(str(folder / "results.db")) as opened:
        yield opened


@pytest.fixture(scope="module")
def measured(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The same, and a run that was measured here."""
    copy = tmp_path_factory.mktemp("measured") / "store"
    shutil.copytree(folder, copy)
    with open_store(str(copy / "results.db")) as opened:
        recorded_run.record(opened, virtual=False, cycles=6)
        yield opened


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.rst"
    path.write_text(
        mini(
            table(
                'Boot Configuration,"am62xx_sk-fs: Boot time in seconds: avg(min,max)"',
                'Linux boot time from MMCSD,"16.24 (min 15.96, max 16.42)"',
                title="Linux boot time",
            )
        )
    )
    return path


def put(store: Store, path: Path, release: str, board: str | None = None) -> list[importer.Imported]:
    return import_guide(store, path, release, board, NOW)


def texts(one: MeasuredGuide, nameless: str | None = None) -> dict[tuple[str | None, object], str]:
    """What each number of a guide is printed as; without aliases and what no board can be given."""
    return {
        (r.board or nameless, r.key if r.quantity else (r.cell.row, r.cell.metric)): r.cell.value.text
        for r in one.readings
        if r.cell.metric is not None
        and not r.is_alias
        and not r.table.columns[r.cell.column].is_key
        and r.cell.value.text
    }


def reread(release: GuideRelease) -> MeasuredGuide:
    guide = reader.parse("written.rst", rst_writer.write(release))
    assert guide.unread == ()
    return measurements.of_guide(guide)


# --- import -------------------------------------------------------------------------------------------------------------


def test_a_guide_becomes_a_run_for_each_board_with_the_file_as_evidence(
    library: Store, paths: Mapping[str, Path]
) -> None:
    runs = {run.board: run for run in library.runs() if run.release == "11.01"}
    assert runs.keys() == {"am62xx_lp_sk-fs", SK, "am62xxsip_sk-fs"}
    run = runs[SK]
    assert (run.kind, run.board_type, run.board, run.release, run.status) == (
        "published",
        "am62xx_sk",
        SK,
        "11.01",
        "completed",
    )
    assert run.provenance["title"] == "Linux 11.01 Performance Guide"
    assert run.provenance["module"]["name"] == "AM62x SK"
    (attempt,) = library.attempts(run.id)
    file = attempt.artifact("guide")
    assert file
    assert library.artifacts.read(file.sha256) == paths["am62x-11.01.rst"].read_bytes()


def test_samples_are_recovered_values_and_broken_runs_are_none(library: Store) -> None:
    (run_id,) = [run.id for run in library.runs() if (run.release, run.board) == ("11.01", SK)]
    samples = {(s.metric, tuple(sorted(s.params.items()))): s for s in library.samples(run_id)}
    assert samples["lmbench.bw_mem", (("operation", "rd"), ("size", "1mb"))].value == 1303.54
    boot = samples["boot.time", (("medium", "sd"),)]
    assert (boot.value, boot.uncertainty) == (16.24, pytest.approx(0.23))
    assert not any(s.metric.startswith("ipsec.") for s in samples.values())
    assert samples["power.total", (("mode", "deepsleep"), ("rail", "total"))].value == 24.37
    assert all(s.unit == by_name(s.metric).unit for s in samples.values())


def test_the_same_file_is_imported_once(store: Store, small: Path) -> None:
    first = put(store, small, "6.3")
    again = put(store, small, "6.3")
    assert [(one.run_id, one.samples, one.is_new) for one in again] == [(first[0].run_id, 0, False)]
    assert len(store.runs()) == 1
    assert put(store, small, "6.4")[0].is_new


def test_all_boards_of_a_guide_are_stored_or_none(store: Store, paths: Mapping[str, Path]) -> None:
    guide = importer.prepare(paths["am62x-11.01.rst"], "11.01", None, None, NOW)
    *others, last = guide.boards
    (attempt,) = last.run.attempts
    bad = evolve(attempt, samples=(*attempt.samples, SampleRecord("no.metric", {}, 1.0, 0.1)))
    broken = evolve(guide, boards=(*others, evolve(last, run=evolve(last.run, attempts=(bad,)))))
    with pytest.raises(TestStableError, match=r"no metric 'no\.metric'"):
        importer.Importer(store).add(broken)
    assert store.runs() == []
    assert [one.is_new for one in importer.Importer(store).add(guide)] == [True, True, True]
    assert {run.status for run in store.runs()} == {"completed"}


def test_tables_without_a_board_need_to_be_given_one(store: Store, paths: Mapping[str, Path], tmp_path: Path) -> None:
    two = table("Benchmark,a1-fs: Score,b2-fs: Score", "Glmark2-DRM,1.00,2.00", title="Glmark2")
    power = table(
        "Rail name,Rail voltage(V),Power (mW)",
        "vdd_core,0.85,8.53",
        "Total,,8.53",
        title="Deep Sleep Power Performance",
    )
    path = tmp_path / "two.rst"
    path.write_text(mini(two, power))
    assert [(one.board, one.samples, one.nameless) for one in put(store, path, "11.01")] == [
        ("a1-fs", 1, 2),
        ("b2-fs", 1, 2),
    ]
    path = tmp_path / "power.rst"
    path.write_text(
        mini(table("Rail name,Rail voltage(V),Power (mW)", "vdd_core,0.85,8.53", title="Deep Sleep Power Performance"))
    )
    with pytest.raises(ConfigurationError, match="no table names a board"):
        put(store, path, "11.02")
    assert [(one.board, one.samples) for one in put(store, path, "11.02", SK)] == [(SK, 1)]


def test_a_board_that_the_guide_says_nothing_of_is_refused(store: Store, small: Path) -> None:
    with pytest.raises(ConfigurationError, match="none 'a1-fs'; they name: am62xx_sk-fs"):
        put(store, small, "11.01", "a1-fs")
    assert store.runs() == []


# --- write --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", guide_family.NAMES)
def test_a_guide_that_is_imported_and_written_says_the_same(
    library: Store, sheets: Mapping[str, MeasuredGuide], name: str
) -> None:
    assert texts(reread(stored_release.release(library, RELEASES[name], ()))) == texts(sheets[name], SK)


def test_every_written_row_has_the_width_of_its_header(library: Store) -> None:
    guide = reader.parse("g", rst_writer.write(stored_release.release(library, "09.02", ())))
    for one in guide.tables:
        rows = Counter(cell.line for cell in one.cells)
        assert set(rows.values()) == {len(one.columns) - 1}


RAW = re.compile(r" (Raw|EXT\d|VFAT)\b")  # the vendor's cards have "Raw" in columns of files


def test_chapters_and_tables_follow_the_vendors_order(library: Store, guides: Mapping[str, Guide]) -> None:
    written = reader.parse("g", rst_writer.write(stored_release.release(library, "11.01", ())))
    original = guides["am62x-11.01.rst"]
    assert list(dict.fromkeys(t.chapter[0] for t in written.tables)) == list(
        dict.fromkeys(t.chapter[0] for t in original.tables)
    )
    same = [t.title for t in written.tables if t.title in {o.title for o in original.tables}]
    assert list(dict.fromkeys(same)) == [t for t in dict.fromkeys(o.title for o in original.tables) if t in same]
    assert len(set(same)) >= 25
    ours, theirs = (
        {t.title: found for t in g.tables if (found := [RAW.sub("", c.metric) for c in t.columns if c.board == SK])}
        for g in (written, original)
    )
    assert {title: ours[title] for title in same if title in theirs} == {t: theirs[t] for t in same if t in theirs}


def test_conditions_and_modules_go_with_the_numbers(library: Store) -> None:
    written = reader.parse("g", rst_writer.write(stored_release.release(library, "11.01", [SK])))
    assert [(m.name, m.clock_mhz) for m in written.modules] == [("AM62x SK", 1400.0)]
    card = "SanDisk Max Endurance SD card (SDSQQVR-032G-GN6IA)"
    assert [c.chapter[0] for c in written.conditions if c.text == card] == ["MMCSD", "UBoot MMCSD"]


def test_a_stored_release_is_what_its_written_guide_reads_as(measured: Store) -> None:
    for name in ("09.02", "11.01"):
        release = stored_release.release(measured, name, ())
        made = reader.assembled("g", "rst", rst_writer.document(release), None, "")
        read = reader.parse("g", rst_writer.write(release))
        assert evolve(read, release=None, release_source="") == made
        assert len(made.tables) > 25


def storage_guide(folder: Path, device: str, boards: Sequence[str], card: str) -> Path:
    header = ",".join(["Buffer size (bytes)", *(f"{board}: Write EXT4 Throughput (Mbytes/sec)" for board in boards)])
    rows = [",".join([size, *["40.00"] * len(boards)]) for size in ("1m", "4m")]
    one = table(header, *rows, title="MMC EXT4 FIO 1G", chapter=("MMC/SD Driver",))
    text = GuideText(f"Linux 11.01 Performance Guide of {device}", tables=[one], conditions=[(1, card)])
    path = folder / f"{device}.rst"
    path.write_text(write_rst_of(text))
    return path


def test_cards_of_two_products_stay_apart(store: Store, tmp_path: Path) -> None:
    cards = {"am62xx_sk-fs": "SanDisk 8GB", "am62xx_lp_sk-fs": "SanDisk 8GB", "am64xx-evm": "Kingston 32GB"}
    put(store, storage_guide(tmp_path, "AM62x", ["am62xx_sk-fs", "am62xx_lp_sk-fs"], "SanDisk 8GB"), "11.01")
    put(store, storage_guide(tmp_path, "AM64x", ["am64xx-evm"], "Kingston 32GB"), "11.01")
    together = stored_release.sheet(store, "11.01")
    known = measurements.of_sheet(together)
    readings = together.of("storage.fio.throughput")
    assert {(r.board, measurements.media_of(r, known)) for r in readings} == {
        (board, (card,)) for board, card in cards.items()
    }
    written = rst_writer.write(stored_release.release(store, "11.01", ()))
    assert "-  am64xx-evm: Kingston 32GB" in written
    assert {c.boards for c in together.guide.conditions} == {("am64xx-evm",), ("am62xx_lp_sk-fs", "am62xx_sk-fs")}
    (path,) = writer.write(store, "11.01", [], tmp_path / "out", ["html"])
    assert "am64xx-evm: Kingston 32GB" in path.read_text()
    alone = rst_writer.write(stored_release.release(store, "11.01", ["am62xx_sk-fs", "am62xx_lp_sk-fs"]))
    assert "-  SanDisk 8GB" in alone
    assert "Kingston" not in alone


def docutils_says(text: str) -> str:
    warnings = StringIO()
    settings_overrides = {
        "report_level": 2,
        "warning_stream": warnings,
        "file_insertion_enabled": False,
        "raw_enabled": False,
    }
    publish_string(text, writer="pseudoxml", settings_overrides=settings_overrides)
    return warnings.getvalue()


@pytest.mark.parametrize("name", guide_family.NAMES)
def test_docutils_builds_a_written_guide_without_a_warning(library: Store, name: str) -> None:
    assert docutils_says(rst_writer.write(stored_release.release(library, RELEASES[name], ()))) == ""


Key = tuple[str, tuple[tuple[str, str], ...], tuple[str, ...], str]


@cache
def keys() -> list[Key]:
    """The subjects of the written guides' numbers."""
    return sorted(
        {
            (r.metric, tuple(sorted(r.params.items())), tuple(c.text for c in r.table.columns if c.is_key), r.cell.row)
            for name in guide_family.NAMES
            for r in measurements.of_guide(reader.parse(name, guide_family.text(guide_family.figures(name)))).readings
            if r.quantity and not r.is_alias and r.cell.metric is not None
        }
    )


_NUMBER = st.decimals(min_value=-999, max_value=10**7, places=2).map(lambda d: f"{d:.2f}")
_TEXT = st.one_of(
    _NUMBER,
    st.tuples(_NUMBER, _NUMBER, _NUMBER).map(lambda v: f"{v[0]} (min {v[1]}, max {v[2]})"),
    st.sampled_from(["n/a", "~11.04", "137", "ov10635", "Full normal boot time (~seconds)"]),
)
_ODD = (
    st.text(st.sampled_from("ab1 -_*`|:.\\()[]<>#+=~\"',;/&@"), min_size=1, max_size=12)
    .map(lambda t: " ".join(t.split()))
    .filter(bool)
)


@st.composite
def releases(draw: st.DrawFn) -> GuideRelease:
    """Numbers of up to three boards, of metrics that guides have and of some that no metric stands for."""
    boards = draw(
        st.lists(
            st.sampled_from(["am62xx_sk-fs", "am64xx-hsevm", "j721e-idk-gw"]), min_size=1, max_size=3, unique=True
        )
    )
    entries = []
    for board in boards:
        for metric, params, _, row in draw(
            st.lists(st.sampled_from(keys()), max_size=12, unique_by=lambda key: key[:2])
        ):
            origin = (
                Origin((), "", (), row, "") if metric in {"glmark2.score", "gfxbench.score", "nbench.rate"} else None
            )
            entries.append(
                GuideEntry(board, metric, dict(params), draw(_TEXT), None, EntryProvenance("drawn", 1), origin=origin)
            )
        for row in draw(st.lists(_ODD, max_size=3, unique_by=str.lower)):
            origin = Origin(("Novelties",), "Novelty", ("Test",), row, "Wobble (turns/s)")
            entries.append(GuideEntry(board, "", {}, draw(_TEXT), None, EntryProvenance("drawn", 1), origin=origin))
    return GuideRelease("12.00", tuple(boards), tuple(entries))


@given(releases())
def test_what_is_written_is_read_back_cell_by_cell(release: GuideRelease) -> None:
    if not release.entries:
        return
    expected = {
        (
            e.board,
            (e.metric, tuple(sorted(e.params.items())))
            if e.metric
            else (e.origin.row if e.origin else "", "Wobble (turns/s)"),
        ): e.text
        for e in release.entries
    }
    text = rst_writer.write(release)
    assert texts(reread(release)) == expected
    assert docutils_says(text) == ""


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=30))
@example("\\\\")  # four when protected, which docutils takes for a line
def test_an_escaped_text_reads_as_itself(text: str) -> None:
    assert unescaped(escaped(text)) == text


def test_every_metric_of_the_five_has_its_place() -> None:
    assert [key for key in keys() if layout.load().place(key[0], dict(key[1])) is None] == []


# --- measured here ------------------------------------------------------------------------------------------------------


def test_what_was_measured_here_goes_before_what_was_published(measured: Store) -> None:
    release = stored_release.release(measured, "11.01", [SK])
    boots = {e.params["medium"]: e for e in release.entries if e.metric == "boot.time"}
    (run_id,) = [run.id for run in measured.runs() if run.kind == "boot"]
    assert {medium: e.evidence.run_id for medium, e in boots.items()} == {"sd": run_id, "emmc": run_id, "ospi": run_id}
    evidence = boots["sd"].evidence
    assert evidence.samples == len(evidence.values) == 6
    assert evidence.uncertainty
    assert "login:" in evidence.excerpt
    written = reread(release)
    assert {(r.params["medium"], r.cell.value.low is not None) for r in written.of("boot.time")} == {
        ("sd", True),
        ("emmc", True),
        ("ospi", True),
    }


def test_nothing_that_was_measured_is_left_out(store: Store) -> None:
    run = recorded_run.record(store, virtual=False, cycles=1)
    written = reread(stored_release.release(store, "11.01", ()))
    assert Counter(r.metric for r in written.readings if r.cell.metric is not None and r.board == "am62xx_sk") == {
        "boot.time": 3,
        "boot.power_on_to_prompt": 3,
        "boot.stage": 21,
    }
    assert len(store.measurements(run.id)) == 27
    stages = [r.cell.row for r in written.of("boot.stage") if r.params["medium"] == "emmc"]
    assert stages == [stage for _, stage, _, _ in recorded_run.BOOT]


def panicked(store: Store, good: int = 1, board: str = "SK-AM62-0042", release: str = "11.01") -> Run:
    """A run with some good boots from SD, and three that ended in a panic."""
    run = store.begin_run("boot", "am62xx_sk", board, release, plan={"cycles": 4, "media": ["sd"]}, provenance={})
    for cycle in range(1, good + 4):
        samples = (SampleRecord("boot.time", {"medium": "sd"}, 99.0, 0.001),) if cycle <= good else ()
        how = ("ok", None, None) if samples else ("kernel_panic", "board", True)
        store.record_attempt(run.id, AttemptRecord(cycle, 1, {"medium": "sd"}, *how, "", NOW, 1.0, samples))
    store.finish_run(run.id, "failed")
    return run


def test_the_good_cycles_of_a_run_that_failed_are_in_no_guide(store: Store, tmp_path: Path) -> None:
    recorded_run.record(store, virtual=False, cycles=2)
    before = {entry.value for entry in stored_release.release(store, "11.01", ()).entries}
    run = panicked(store)
    written = stored_release.release(store, "11.01", ())
    assert {entry.value for entry in written.entries} == before
    assert written.failed == (f"SK-AM62-0042 (sd): run {run.id} failed in 3 of 4 cycles (kernel_panic 3)",)
    said: list[str] = []
    (path,) = writer.write(store, "11.01", (), tmp_path, ["html"], say=said.append)
    assert said == [f"left out: {written.failed[0]}"]
    assert written.failed[0] in path.read_text()
    for point in (
        one for found in stored_release.trends(store, "boot.time", "SK-AM62-0042", {}) for one in found.points
    ):
        assert point.value < 99


def boots(store: Store, board: str, release: str, mean_s: float) -> Run:
    """A completed run of five boots from SD, whose times are around a mean."""
    run = store.begin_run("boot", "am62xx_sk", board, release, plan={"cycles": 5, "media": ["sd"]}, provenance={})
    for cycle in range(1, 6):
        sample = SampleRecord("boot.time", {"medium": "sd"}, mean_s * (1 + 0.001 * cycle), 0.001)
        store.record_attempt(
            run.id, AttemptRecord(cycle, 1, {"medium": "sd"}, "ok", None, None, "", NOW, 1.0, (sample,))
        )
    store.finish_run(run.id, "completed")
    return run


def test_a_cell_says_that_boards_of_its_type_differ_and_that_its_regression_is_open(
    store: Store, tmp_path: Path
) -> None:
    for board, before_s, now_s in (("sk-1", 2.10, 2.11), ("sk-2", 2.17, 2.17), ("sk-3", 2.11, 2.61)):
        boots(store, board, "11.00", before_s)
        last = boots(store, board, "11.01", now_s)
    written = stored_release.release(store, "11.01", (), is_judged=True)
    (entry,) = written.entries
    assert entry.evidence.run_id == last.id, "the slowest board was measured last"
    differing = "3 boards differ by more than equal runs do: 2.1163 (sk-1) to 2.6178 (sk-3) s; this is sk-3's"
    assert differing in entry.evidence.note
    regression = f"+24 % in 11.01 against 11.00 (run {last.id})"
    assert f"open regression: {regression}" in entry.evidence.note
    assert written.regressions == (f"sk-3: boot.time sd {regression}",)
    said: list[str] = []
    for path in writer.write(store, "11.01", (), tmp_path, ["rst", "html"], say=said.append):
        text = " ".join(path.read_text().split())
        assert "3 boards differ by more than equal runs do" in text
        assert "Open regression of sk-3: boot.time sd +24 %" in text
    assert any("open regression of sk-3" in line for line in said)
    review(store, last.id, "accepted", "ada", "a new SPL")
    written = stored_release.release(store, "11.01", (), is_judged=True)
    assert written.regressions == ()
    assert "regression" not in written.entries[0].evidence.note


def test_boards_that_differ_as_equal_runs_do_need_no_remark(store: Store) -> None:
    for board, mean_s in (("sk-1", 2.10), ("sk-2", 2.12)):
        boots(store, board, "11.01", mean_s)
    assert [entry.evidence.note for entry in stored_release.release(store, "11.01", ()).entries] == [""]


def test_a_board_of_failed_runs_alone_leaves_the_others_their_guide(store: Store) -> None:
    run = panicked(store, board="other")
    with pytest.raises(ConfigurationError, match=f"no numbers of board .*run {run.id} failed in 3 of 4 cycles"):
        stored_release.release(store, "11.01", ())
    store.finish_run(store.begin_run("boot", "am64xx_evm", "dead", "11.01", plan={}, provenance={}).id, "failed")
    recorded_run.record(store, virtual=True, cycles=1)
    assert stored_release.release(store, "11.01", ()).boards == ("qemu-virt-sim",)


def test_a_run_that_was_rejected_is_in_no_guide(store: Store) -> None:
    first, last = (recorded_run.record(store, virtual=False, cycles=1, seed=seed) for seed in (1, 2))
    assert {entry.evidence.run_id for entry in stored_release.release(store, "11.01", ()).entries} == {last.id}
    review(store, last.id, "rejected", "ada", "another card")
    assert {entry.evidence.run_id for entry in stored_release.release(store, "11.01", ()).entries} == {first.id}


def test_a_metric_that_no_guide_has_gets_a_table_of_its_own() -> None:
    entry = GuideEntry("a1-fs", "boot.stage", {"phase": "of the moon"}, "1.00", None, EntryProvenance("drawn", 1))
    (one,) = compose.tables(GuideRelease("12.00", ("a1-fs",), (entry,)))
    assert (one.chapter, one.title, one.header) == (
        ("Other Measurements",),
        "boot.stage",
        ("Parameters", "a1-fs: Value (s)"),
    )
    assert [row.keys for row in one.rows] == [("phase of the moon",)]


def test_a_board_is_named_alike_in_every_release(store: Store, small: Path) -> None:
    recorded_run.record(store, virtual=False, cycles=1)
    assert stored_release.release(store, "11.01", ()).boards == ("am62xx_sk",)
    put(store, small, "10.00")
    assert stored_release.release(store, "11.01", ()).boards == (SK,)
    changes = compare.compare(stored_release.sheet(store, "10.00"), stored_release.sheet(store, "11.01")).changes
    assert {(c.board, c.metric, c.params["medium"]) for c in changes} == {(SK, "boot.time", "sd")}


def test_a_virtual_board_is_said_to_be_one(store: Store) -> None:
    recorded_run.record(store, virtual=True, cycles=1)
    entry = stored_release.release(store, "11.01", ["qemu-1"]).entries[0]
    assert entry.evidence.is_simulated
    assert stored_release.release(store, "11.01", ()).boards == ("qemu-virt-sim",)


def test_a_release_that_is_only_measured_can_be_compared(store: Store) -> None:
    recorded_run.record(store, virtual=False, cycles=1)
    one = stored_release.sheet(store, "11.01")
    assert one.guide.release == "11.01"
    assert {r.params["medium"] for r in one.of("boot.time")} == {"sd", "emmc", "ospi"}


def test_releases_are_followed_through_the_store(library: Store) -> None:
    store = library
    assert stored_release.releases(store, SK) == ["09.02", "11.01"]
    (rd,) = stored_release.trends(store, "lmbench.bw_mem", SK, {"operation": "rd", "size": "1mb"})
    assert [(p.release, p.value, p.low) for p in rd.points] == [("09.02", 1282.29, None), ("11.01", 1303.54, None)]
    (aes,) = stored_release.trends(store, "ipsec.throughput", SK, {"algorithm": "aes128"})
    assert [bool(p.note) for p in aes.points] == [False, True]
    with pytest.raises(ConfigurationError, match=r"no release has 'boot.tyme'"):
        stored_release.trends(store, "boot.tyme", SK, {})


def test_what_is_not_in_the_store_is_said_with_what_is(store: Store, small: Path) -> None:
    put(store, small, "6.3")
    with pytest.raises(ConfigurationError, match=r"no numbers of release 7\.0; there are: 6\.3"):
        stored_release.release(store, "7.0", ())
    with pytest.raises(
        ConfigurationError, match=r"release 6\.3 has no numbers of board 'am62'; there are: am62xx_sk-fs"
    ):
        stored_release.release(store, "6.3", ["am62"])


# --- the page -----------------------------------------------------------------------------------------------------------


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.cells: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.ids += [named["id"]] if "id" in named else []
        self.targets += [named[name] for name in ("href", "src") if name in named]
        if tag == "a" and "title" in named:
            self.cells.append((named["href"], named["title"]))


@pytest.fixture(scope="module")
def written_page(measured: Store, tmp_path_factory: pytest.TempPathFactory) -> str:
    (path,) = writer.write(measured, "11.01", [SK, "am62xx_lp_sk-fs"], tmp_path_factory.mktemp("out"), ["html"])
    return path.read_text(encoding="utf-8")


def test_the_page_needs_no_network_and_every_number_leads_to_its_evidence(written_page: str) -> None:
    links = _Links()
    links.feed(written_page)
    assert [target for target in links.targets if not target.startswith("#")] == []
    assert "@import" not in written_page
    assert "url(http" not in written_page
    assert len(links.ids) == len(set(links.ids))
    assert {target.removeprefix("#") for target in links.targets} <= set(links.ids)
    assert len(links.cells) > 900
    assert len({href for href, _ in links.cells}) == len(links.cells)


def test_the_page_shows_uncertainty_samples_and_evidence(written_page: str) -> None:
    assert re.search(r'title="n = \d+, ± 0\.\d+ s">\d+\.\d\d \(min', written_page)
    assert re.search(r">1303\.54</a><a class=\"mark\" href=\"#note-\d+\">", written_page)
    assert "Recovered: the published guide prints another number" in written_page
    assert "published: am62x-11.01.rst, line" in written_page
    assert "the tunnel did not carry the traffic" in written_page
    assert "so its boards are not known" in written_page


def test_the_page_runs_its_own_script_and_no_other(written_page: str) -> None:
    (script,) = re.findall(r"<script>(.*?)</script>", written_page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in written_page


def test_the_page_has_its_figures(written_page: str) -> None:
    figures = re.findall(r"<figure>(.*?)</figure>", written_page, re.DOTALL)
    assert [re.findall(r"<figcaption>(\w+ \w+)", figure) for figure in figures] == [
        ["Median over"], ["Boot time"], ["Stages of"], ["Power of"]
    ]  # fmt: skip
    chapters, cycles, stages, rails = figures
    assert 'aria-label="Each chapter over the releases"' in chapters
    assert re.search(r'<g class="dot"><line .*?/><circle ', cycles)
    assert 'class="band"' in cycles
    assert 'class="bin"' in cycles
    assert '<th scope="row">Kernel load</th>' in stages
    assert re.search(r'title="\S+ \d+\.\d\d mW"', rails)


@pytest.fixture(scope="module")
def several_boards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, str]]:
    """The page of a release that four boards of one type were measured with."""
    folder = tmp_path_factory.mktemp("boards")
    with open_store(str(folder / "results.db")) as opened:
        for number in range(4):
            recorded_run.record(opened, virtual=False, cycles=3, seed=number, board=f"SK-{number}")
        (path,) = writer.write(opened, "11.01", [], folder, ["html"])
        yield opened, path.read_text(encoding="utf-8")


def test_a_figure_over_releases_is_of_one_kernel(tmp_path: Path) -> None:
    rows = ("lat_pipe (us),20.00", "lat_sem (us),2.00", "lat_unix (us),30.00")
    text = mini(table("Benchmarks,a1-fs: perf", *rows, title="LMBench Benchmarks"))
    (tmp_path / "guide.rst").write_text(text)
    with open_store(str(tmp_path / "results.db")) as opened:
        for release in ("9.00", "9.01-rt", "10.00"):
            import_guide(opened, tmp_path / "guide.rst", release, None, NOW)
        (path,) = writer.write(opened, "10.00", [], tmp_path, ["html"])
    html = path.read_text(encoding="utf-8")
    figure = html[html.index("<svg") : html.index("</svg>")]
    assert ">9.00<" in figure
    assert "9.01" not in figure


def test_a_board_type_has_one_figure_with_its_boards_as_strips(several_boards: tuple[Store, str]) -> None:
    _, html = several_boards
    strips, stages = re.findall(r"<figure>(.*?)</figure>", html, re.DOTALL)
    assert [name for name in ("SK-0", "SK-1", "SK-2", "SK-3", "emmc", "ospi", "sd") if f">{name}<" not in strips] == []
    texts = re.findall(r"<svg [^>]*><title>(.*?)</title>(.*?)</svg>", strips, re.DOTALL)
    assert len(texts) == 4 * 3
    for text, strip in texts:
        assert re.fullmatch(r"SK-\d, (sd|emmc|ospi): [\d.]+ ± [\d.]+ s, 3 samples", text)
        assert strip.count('class="was"') == 3
    assert 'class="stages' in stages
    assert "Boot time of each cycle, 4 boards of am62xx_sk" in html
    assert "the middle one of 4 runs" in html


def test_contents_and_summary_come_first(written_page: str, several_boards: tuple[Store, str]) -> None:
    for html in (written_page, several_boards[1]):
        places = [html.index(text) for text in (">Contents<", 'id="summary"', "<figure>", "<caption>")]
        assert places == sorted(places)
    text = rst_writer.write(stored_release.release(several_boards[0], "11.01", ()))
    assert text.index(".. contents:: Contents") < text.index("Evaluation Modules") < text.index("Linux boot time")
    (summed,) = page.boards(stored_release.release(several_boards[0], "11.01", ["SK-0"]))
    assert summed.text.startswith("27 numbers (27 measured here)")
    assert "; boots from emmc in" in summed.text
    assert f"-  SK-0: {summed.text}" in rst_writer.write(stored_release.release(several_boards[0], "11.01", ["SK-0"]))


def test_texts_of_a_guide_cannot_break_the_page() -> None:
    evil = Origin(("<script>",), "</style>", ("K",), "<img src=x>", '"M"')
    release = GuideRelease(
        "1.0", ("a<b",), (GuideEntry("a<b", "", {}, "<b>1</b>", None, EntryProvenance("</details>", 1), origin=evil),)
    )
    html = page.render(release, {})
    for text in ("<img src=x>", "<b>1</b>", "</details></td>"):
        assert text not in html
    assert [t.title for t in compose.tables(release)] == ["</style>"]
