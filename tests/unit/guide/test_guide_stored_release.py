"""A release in the store: which numbers stand in its guide, and in what it is compared as."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from attrs import evolve
from support import recorded_run
from support.facts import missing_facts
from support.guide_family import GuideText, table
from support.guide_family import write_rst as write_rst_of
from support.guide_library import NOW, SK, put, reread

from lab.benchmarks.output import transcript_head, transcript_status
from lab.errors import ConfigurationError
from lab.guide import measurements, stored_runs
from lab.guide.compare import comparison as compare
from lab.guide.compare import stored_history
from lab.guide.read import reader
from lab.guide.stored_runs import sound_numbers
from lab.guide.write import compose, page, rst_writer, stored_release, writer
from lab.guide.write.entries import EntryProvenance, GuideEntry, GuideRelease
from lab.judge.latest import LabComparison
from lab.judge.store import review
from lab.results import AttemptRecord, Run, Store
from lab.results.records import CONSOLE_LOG, SampleRecord


def test_a_stored_release_is_what_its_written_guide_reads_as(measured: Store) -> None:
    for name in ("09.02", "11.01"):
        release = stored_release.collect(measured, name, ())
        written = rst_writer.compose(release)
        sheet, read = written.sheet("g"), reader.parse("g", written.text)
        assert evolve(read, release=name, release_source="given") == sheet.guide
        readings = measurements.of_guide(sheet.guide).readings
        assert [r for r in sheet.readings if r.cell.value.text] == [r for r in readings if r.cell.value.text]
        assert len(sheet.guide.tables) > 25


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
    together = stored_release.load_sheet(store, "11.01")
    known = measurements.conditions_of(together)
    readings = together.of("storage.fio.throughput")
    assert {(r.board, measurements.media_of(r, known)) for r in readings} == {
        (board, (card,)) for board, card in cards.items()
    }
    written = rst_writer.write(stored_release.collect(store, "11.01", ()))
    assert not missing_facts(written, "am64xx-evm", "Kingston 32GB")
    assert {c.boards for c in together.guide.conditions} == {("am64xx-evm",), ("am62xx_lp_sk-fs", "am62xx_sk-fs")}
    (path,) = writer.write(store, "11.01", [], tmp_path / "out", ["html"])
    assert "am64xx-evm: Kingston 32GB" in path.read_text()
    alone = rst_writer.write(stored_release.collect(store, "11.01", ["am62xx_sk-fs", "am62xx_lp_sk-fs"]))
    assert "-  SanDisk 8GB" in alone
    assert "Kingston" not in alone


def test_what_was_measured_here_goes_before_what_was_published(measured: Store) -> None:
    release = stored_release.collect(measured, "11.01", [SK])
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
    written = reread(stored_release.collect(store, "11.01", ()))
    assert Counter(r.metric for r in written.readings if r.cell.metric is not None and r.board == "am62xx_sk") == {
        "boot.time": 3,
        "boot.power_on_to_prompt": 3,
        "boot.stage": 21,
    }
    assert len(store.measurements(run.id)) == 27
    stages = [r.cell.row for r in written.of("boot.stage") if r.params["medium"] == "emmc"]
    assert stages == [stage for _, stage, _, _ in recorded_run.BOOT]


def test_a_stage_that_took_no_time_is_no_row_and_is_said(store: Store) -> None:
    run = store.begin_run("boot", "am62xx_sk", "SK-AM62-0042", "11.01", plan={"cycles": 2}, provenance={})
    for cycle in (1, 2):
        stages = [("Kernel", 1.5), ("Power on to SPL", 0.0)]
        samples = (
            SampleRecord("boot.time", {"medium": "sd"}, 4.0, 0.001),
            *(SampleRecord("boot.stage", {"medium": "sd", "stage": name}, value, 0.001) for name, value in stages),
        )
        params = {"medium": "sd"}
        store.record_attempt(run.id, AttemptRecord(cycle, 1, params, "ok", None, None, "", NOW, 6.0, samples))
    store.finish_run(run.id, "completed")
    release = stored_release.collect(store, "11.01", ())
    assert {entry.params.get("stage") for entry in release.entries} == {None, "Kernel"}
    (said,) = release.left_out
    assert "Power on to SPL" in said


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
    before = {entry.value for entry in stored_release.collect(store, "11.01", ()).entries}
    run = panicked(store)
    written = stored_release.collect(store, "11.01", ())
    assert {entry.value for entry in written.entries} == before
    (failed,) = written.failed
    assert not missing_facts(failed, "SK-AM62-0042 (sd)", f"run {run.id}", "3 of 4 cycles", "kernel_panic 3")
    said: list[str] = []
    (path,) = writer.write(store, "11.01", (), tmp_path, ["html"], say=said.append)
    assert said == [f"left out: {written.failed[0]}"]
    assert written.failed[0] in path.read_text()
    for point in (
        one for found in stored_history.trends_in_store(store, "boot.time", "SK-AM62-0042", {}) for one in found.points
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
    written = stored_release.collect(store, "11.01", (), is_judged=True)
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
        assert not missing_facts(text, "3 boards differ")
        assert not missing_facts(text, "Open regression", "sk-3", "boot.time sd", "+24 %")
    assert any("open regression of sk-3" in line for line in said)
    review(store, last.id, "accepted", "ada", "a new SPL")
    written = stored_release.collect(store, "11.01", (), is_judged=True)
    assert written.regressions == ()
    assert "regression" not in written.entries[0].evidence.note


def test_a_guide_of_several_boards_says_whose_numbers_it_prints_and_reads_no_other_run_whole(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boots(store, "sk-1", "11.01", 2.1)
    assert stored_release.collect(store, "11.01", ()).origins == ()
    wake = store.begin_run("low_power", "am62xx_sk", "sk-1", "11.01", plan={}, provenance={})
    sample = (SampleRecord("lpm.deep_sleep.resume_kernel", {}, 150.0, 1.0),)
    store.record_attempt(wake.id, AttemptRecord(1, 1, {}, "ok", None, None, "", NOW, 1.0, sample))
    store.finish_run(wake.id, "completed")
    last = [boots(store, f"sk-{number}", "11.01", 2.1) for number in range(2, 30)][-1]
    read: list[int] = []
    monkeypatch.setattr(
        stored_release, "sound_numbers", lambda store, run: read.append(run.id) or sound_numbers(store, run)
    )
    written = stored_release.collect(store, "11.01", ())
    assert read == [last.id, wake.id]
    whose = "29 boards were measured; the numbers are 1 of sk-29, 1 of sk-1, each of the board on which it was"
    assert [text for text in written.origins if whose in text] == list(written.origins) != []
    for path in writer.write(store, "11.01", (), tmp_path, ["rst", "html"]):
        assert whose in " ".join(path.read_text().split())
    review(store, wake.id, "rejected", "ada", "another card")
    (text,) = stored_release.collect(store, "11.01", ()).origins
    assert "the numbers are those of the board sk-29, which was measured last, and no average" in text


def test_boards_that_are_not_compared_yet_are_said_in_a_guide(store: Store) -> None:
    boots(store, "sk-1", "11.01", 2.1)
    left = LabComparison(left=frozenset({"sk-1", "other"}))
    written = stored_release.collect(store, "11.01", (), comparison=left)
    assert written.uncompared == 1
    assert "1 board is not compared with earlier runs yet" in rst_writer.write(written)


def test_boards_that_differ_as_equal_runs_do_need_no_remark(store: Store) -> None:
    for board, mean_s in (("sk-1", 2.10), ("sk-2", 2.12)):
        boots(store, board, "11.01", mean_s)
    assert [entry.evidence.note for entry in stored_release.collect(store, "11.01", ()).entries] == [""]


def test_a_board_of_failed_runs_alone_leaves_the_others_their_guide(store: Store) -> None:
    run = panicked(store, board="other")
    with pytest.raises(ConfigurationError, match=f"run {run.id} .*3 of 4 cycles"):
        stored_release.collect(store, "11.01", ())
    store.finish_run(store.begin_run("boot", "am64xx_evm", "dead", "11.01", plan={}, provenance={}).id, "failed")
    recorded_run.record(store, virtual=True, cycles=1)
    assert stored_release.collect(store, "11.01", ()).boards == ("qemu-virt-sim",)


def test_a_run_that_was_rejected_is_in_no_guide(store: Store) -> None:
    first, last = (recorded_run.record(store, virtual=False, cycles=1, seed=seed) for seed in (1, 2))
    assert {entry.evidence.run_id for entry in stored_release.collect(store, "11.01", ()).entries} == {last.id}
    review(store, last.id, "rejected", "ada", "another card")
    assert {entry.evidence.run_id for entry in stored_release.collect(store, "11.01", ()).entries} == {first.id}


def test_a_table_has_the_commands_that_its_numbers_were_read_from(store: Store) -> None:
    run = store.begin_run("sections", "am62xx_sk", "b1", "11.01", plan={}, provenance={})
    log, samples = b"", []
    for size in ("1mb", "2mb"):
        log += transcript_head("board", "cat /proc/meminfo") + transcript_status(0, 0.1) + b"MemTotal: 1\n"
        log += transcript_head("board", f"bw_mem {size} rd 2>&1") + transcript_status(0, 0.1)
        params = {"operation": "rd", "size": size}
        samples.append(SampleRecord("lmbench.bw_mem", params, 1303.0, 1.0, frozenset(), len(log), len(log) + 5))
        log += b"1303\n"
    artifact = store.artifacts.put(log, kind=CONSOLE_LOG)
    record = AttemptRecord(
        1, 1, {"section": "lmbench"}, "ok", None, None, "", NOW, 1.0, tuple(samples), artifacts=(artifact,)
    )
    store.record_attempt(run.id, record)
    store.finish_run(run.id, "completed")
    release = stored_release.collect(store, "11.01", ())
    assert {entry.evidence.command for entry in release.entries} == {"bw_mem 1mb rd 2>&1", "bw_mem 2mb rd 2>&1"}
    (one,) = compose.compose_tables(release)
    assert one.commands == ("bw_mem {1mb|2mb} rd",)
    assert "::\n\n    bw_mem {1mb|2mb} rd\n\n.. csv-table:: LMBench" in rst_writer.write(release)
    assert ">bw_mem {1mb|2mb} rd</pre>" in page.render(release, {})


def test_a_metric_that_no_guide_has_gets_a_table_of_its_own() -> None:
    entry = GuideEntry("a1-fs", "boot.stage", {"phase": "of the moon"}, "1.00", None, EntryProvenance("drawn", 1))
    (one,) = compose.compose_tables(GuideRelease("12.00", ("a1-fs",), (entry,)))
    assert (one.chapter, one.title, one.header) == (
        ("Other Measurements",),
        "boot",
        ("Parameters", "a1-fs: stage (s)"),
    )
    assert [row.keys for row in one.rows] == [("phase of the moon",)]


def test_a_board_is_named_alike_in_every_release(store: Store, small: Path) -> None:
    recorded_run.record(store, virtual=False, cycles=1)
    assert stored_release.collect(store, "11.01", ()).boards == ("am62xx_sk",)
    put(store, small, "10.00")
    assert stored_release.collect(store, "11.01", ()).boards == (SK,)
    changes = compare.compare(
        stored_release.load_sheet(store, "10.00"), stored_release.load_sheet(store, "11.01")
    ).changes
    assert {(c.board, c.metric, c.params["medium"]) for c in changes} == {(SK, "boot.time", "sd")}


def test_a_virtual_board_is_said_to_be_one(store: Store) -> None:
    recorded_run.record(store, virtual=True, cycles=1)
    entry = stored_release.collect(store, "11.01", ["qemu-1"]).entries[0]
    assert entry.evidence.is_simulated
    assert stored_release.collect(store, "11.01", ()).boards == ("qemu-virt-sim",)


def test_a_release_that_is_only_measured_can_be_compared(store: Store) -> None:
    recorded_run.record(store, virtual=False, cycles=1)
    one = stored_release.load_sheet(store, "11.01")
    assert one.guide.release == "11.01"
    assert {r.params["medium"] for r in one.of("boot.time")} == {"sd", "emmc", "ospi"}


def test_releases_are_followed_through_the_store(library: Store) -> None:
    store = library
    runs = [run for run in stored_runs.accepted_runs(store) if stored_runs.is_of(run, SK)]
    assert sorted(stored_runs.release_names(runs).values()) == ["09.02", "11.01"]
    (rd,) = stored_history.trends_in_store(store, "lmbench.bw_mem", SK, {"operation": "rd", "size": "1mb"})
    assert [(p.release, p.value, p.low) for p in rd.points] == [("09.02", 1282.29, None), ("11.01", 1303.54, None)]
    (aes,) = stored_history.trends_in_store(store, "ipsec.throughput", SK, {"algorithm": "aes128"})
    assert [bool(p.note) for p in aes.points] == [False, True]
    with pytest.raises(ConfigurationError, match=r"no release.*'boot.tyme'"):
        stored_history.trends_in_store(store, "boot.tyme", SK, {})


def test_what_is_not_in_the_store_is_said_with_what_is(store: Store, small: Path) -> None:
    put(store, small, "6.3")
    with pytest.raises(ConfigurationError, match=r"release 7\.0; .*6\.3"):
        stored_release.collect(store, "7.0", ())
    with pytest.raises(ConfigurationError, match=r"6\.3 .*'am62'; .*-fs"):
        stored_release.collect(store, "6.3", ["am62"])
