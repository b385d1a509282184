"""A written guide prints no number that its own rules call an error, and marks what needs a remark."""

from __future__ import annotations

import datetime as dt
import html
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve
from support.facts import missing_facts

from lab.benchmarks.sections import every
from lab.guide import measurements as sheets
from lab.guide.check.findings import run_rules
from lab.guide.model import CellKind, value_of
from lab.guide.read import reader
from lab.guide.rulebook import Severity
from lab.guide.write import footnotes, page, rst_writer, setup, stored_release
from lab.guide.write.entries import EntryProvenance, GuideEntry, GuideRelease, Origin, summarise_boards
from lab.results import AttemptRecord, SampleRecord, Store, open_store

NOW = dt.datetime(2026, 11, 27, tzinfo=dt.UTC)
TUNNELS = {"3des": (4.2, 0.4, 70.0), "aes128": (217.0, 19.0, 60.0), "aes256": (215.0, 19.0, 61.0)}


def ipsec() -> GuideRelease:
    """A board whose tunnel with 3DES did not carry the traffic."""
    metrics = ("ipsec.throughput", "ipsec.packets", "ipsec.cpu_load")
    entries = tuple(
        GuideEntry(
            "a1_sk",
            metric,
            {"algorithm": algorithm, "engine": "software"},
            f"{value:.2f}",
            value,
            EntryProvenance("run 1", 1, samples=1, uncertainty=0.01, values=(value,), began="2026-11-27"),
        )
        for algorithm, values in TUNNELS.items()
        for metric, value in zip(metrics, values, strict=True)
    )
    return GuideRelease("11.01", ("a1_sk",), entries)


def errors(text: str) -> list[str]:
    sheet = sheets.of_guide(reader.parse("written.rst", text))
    return [f.rule.id for f in run_rules(sheet) if f.severity is Severity.ERROR]


def test_a_number_that_a_rule_calls_an_error_is_not_printed() -> None:
    numbers = ipsec()
    assert "ipsec-broken" in errors(rst_writer.write(numbers))
    written = footnotes.annotate(numbers)
    text = rst_writer.write(written)
    assert errors(text) == []
    assert "4.20" not in text
    assert '"3des","n/a [1]_"' in text
    assert not missing_facts(text, "[1] Not printed", "tunnel")
    html = page.render(written, {})
    assert "4.20" not in html
    assert 'n/a</a><a class="ref" href="#note-1">[1]</a>' in html
    assert "217.00" in html
    assert summarise_boards(written)[0].withheld == 3


def test_with_errors_prints_it_with_its_mark() -> None:
    text = rst_writer.write(footnotes.annotate(ipsec(), with_errors=True))
    assert '"3des","4.20 [1]_"' in text
    assert not missing_facts(text, "[1]", "tunnel", "not carry")


def test_the_footnotes_are_numbered_as_a_reader_meets_them() -> None:
    numbers = ipsec()
    noted = [
        evolve(
            e,
            evidence=evolve(
                e.evidence, note={"aes128": "host busy", "aes256": "governor"}.get(e.params["algorithm"], "")
            ),
        )
        for e in reversed(numbers.entries)
    ]
    written = footnotes.annotate(evolve(numbers, entries=tuple(noted)), with_errors=True)
    assert list(written.notes) == [
        "The tunnel did not carry the traffic.",
        "Packets/Sec are thousands.",
        "Host busy.",
        "Governor.",
    ]


def test_a_published_number_is_corrected_and_says_so() -> None:
    origin = Origin(("LMBench",), "LMBench Benchmarks", ("Benchmarks",), "bw_mem-rd-1mb (MB/s)", "perf")
    evidence = EntryProvenance("published: old.rst, line 3", 1, note="own value 1303.54")
    entry = GuideEntry(
        "a1_sk",
        "lmbench.bw_mem",
        {"operation": "rd", "size": "1mb"},
        "976.13 (min 648.72, max 1303.54)",
        1303.54,
        evidence,
        origin=origin,
    )
    numbers = GuideRelease("11.01", ("a1_sk",), (entry,))
    (corrected,) = footnotes.annotate(numbers).entries
    assert (corrected.text, corrected.marks) == ("1303.54", (1,))
    (vendor,) = footnotes.annotate(numbers, corrected=False).entries
    assert (vendor.text, vendor.marks) == (entry.text, (1,))
    assert footnotes.annotate(numbers, corrected=False).notes == ("Own value 1303.54.",)


def test_broken_published_numbers_share_a_footnote_and_their_own_reasons_are_with_the_evidence() -> None:
    reasons = [f"{rate} Mbit/s with 51 % CPU load: the tunnel did not carry the traffic" for rate in ("1.20", "1.30")]
    numbers = ipsec()
    broken = tuple(
        evolve(entry, evidence=EntryProvenance("published: old.rst", 1, note=reason, is_broken=True))
        for entry, reason in zip(numbers.entries, reasons, strict=False)
    )
    written = footnotes.annotate(evolve(numbers, entries=broken))
    (note,) = written.notes
    assert not missing_facts(note, "Not printed", "tunnel")
    text = html.unescape(page.render(written, {}))
    assert [text.count(f"published: old.rst: {reason}") for reason in reasons] == [1, 1]


@pytest.mark.parametrize("mark", [" [1]_", "[12]", " [1]_ [2]_", " [#3]_"])
def test_a_footnotes_mark_is_no_part_of_a_number(mark: str) -> None:
    value = value_of(f"16.24 (min 15.96, max 16.42){mark}")
    assert (value.number, value.low, value.high) == (16.24, 15.96, 16.42)
    assert value_of(f"n/a{mark}").kind is CellKind.NOT_AVAILABLE
    assert value_of(f"12 %{mark}").number == 12


SOFTWARE = {
    "sysfw": "4.0 (firmware rev 0x000b '11.0.7--v11.00.07 (Fancy Rat)')",
    "dm_firmware": "4.0 (firmware ver 0x000b '11.1.2--v11.01.02' patch_ver: 2)",
    "tf_a": "v2.12.0(release):11.00.15",
    "optee": "4.5.0",
    "uboot": "U-Boot 2025.01-g2 (Jun 26 2025)",
    "kernel": "Linux version 6.12.34-ti (oe)",
    "silicon": "AM62X SR1.0",
    "security": "HS-FS",
    "board_revision": "AM62-SKEVM rev E3",
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "results.db")) as opened:
        yield opened


def test_a_boot_names_the_board_its_firmware_and_the_card(store: Store) -> None:
    run = store.begin_run("boot", "am62xx_sk", "b1", "11.01", plan={"media": ["sd"]}, provenance={})
    details = {"software": SOFTWARE, "setup": {"card mmcblk1": "SR32G", "clock": "1400 MHz"}}
    sample = SampleRecord(
        "storage.fio.throughput",
        {"medium": "sd", "buffer": "1m", "direction": "read", "filesystem": "ext4"},
        87.0,
        0.1,
    )
    store.record_attempt(run.id, AttemptRecord(1, 1, {}, "ok", None, None, "", NOW, 1.0, (sample,), details=details))
    store.finish_run(run.id, "completed")
    numbers = stored_release.collect(store, "11.01", ())
    assert numbers.boards == ("am62xx_sk",)
    about = "AM62-SKEVM rev E3 (AM62X SR1.0 HS-FS) with ARM running at 1.4GHz, DDR data rate 1600 MT/S"
    assert numbers.modules == (("AM62x SK", about),)
    assert {name: of["am62xx_sk"] for name, of in numbers.software.items()} == {
        "System firmware": "11.0.7--v11.00.07 (Fancy Rat)",
        "DM firmware": "11.1.2--v11.01.02",
        "TF-A": "v2.12.0(release):11.00.15",
        "OP-TEE": "4.5.0",
        "U-Boot": "2025.01-g2",
        "Linux": "6.12.34-ti",
    }
    assert list(numbers.conditions.values()) == [("SD card SR32G",)]
    text = rst_writer.write(numbers)
    (fio,) = [section.command for section in every() if section.name == "sd-fio"]
    assert " ".join(fio.split()) in " ".join(text.split())  # no log has its command, so the section's stands there
    assert fio in html.unescape(page.render(numbers, {}))
    guide = reader.parse("written.rst", text)
    assert [cell.number for table in guide.tables if "fio" in table.title.lower() for cell in table.cells] == [87.0]
    assert [module.clock_mhz for module in guide.modules] == [1400.0]
    assert [table.title for table in guide.tables if "Software" in table.header] == []
    assert not missing_facts(
        text, "am62xx_sk", "1 sample a cell", f"{dt.datetime.now(dt.UTC):%Y-%m-%d}", f"run {run.id}"
    )


def test_versions_of_several_runs_are_all_named() -> None:
    one, other = (setup.MeasuredSetup(software={"TF-A": version, "Linux": "6.12"}) for version in ("v1", "v2"))
    column = setup.BoardColumn("a1", (), (), {1: one, 2: other}, ())
    assert setup.software_of([column]) == {"TF-A": {"a1": "v1 and v2"}, "Linux": {"a1": "6.12"}}
