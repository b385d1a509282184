"""What must hold whatever words a guide uses: a round trip loses no cell, no two cells have one key, nearly every number a metric."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from support import guide_family, guide_history
from support import guide_generator as generator
from support.atlength import either
from support.guide_family import GuideText, TableText, import_guide, table
from support.guide_forms import FORMS
from support.guide_generator import Generated

from lab.guide import measurements
from lab.guide.measurements import MeasuredGuide
from lab.guide.model import CellKind
from lab.guide.read import reader
from lab.guide.write import export, rst_writer, stored_release
from lab.results import Store, open_store

NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
SK, LP = "am62xx_sk-fs", "am62xx_lp_sk-fs"
MOST_UNKNOWN = 0.003  # of all numbers
UDP = "THROUGHPUT (Mbits/sec)"


def perf(title: str, row: str, value: str = "10.50", chapter: str = "System Benchmarks") -> TableText:
    return table(f"Benchmarks,{SK}: perf,{LP}: perf", f"{row},{value},11.25", title=title, chapter=(chapter,))


def udp(title: str, size: str) -> TableText:
    columns = ",".join(f"{board}: {name}" for board in (SK, LP) for name in (UDP, "Packets Per Second (kPPS)"))
    rows = (f"{n},{n / 8:.2f},15.00,{n / 9:.2f},16.00" for n in (64, 128, 1024))
    return table(f"{size},{columns}", *rows, title=title, chapter=("Ethernet", "CPSW Ethernet Driver"))


VARIANTS = (
    perf("CoreMarkPro Benchmarks", "core (workloads/)"),
    perf("CoreMarkProTwoCore Benchmarks", "core (workloads/)", "20.50"),
    perf("CoreMarkPro FourCore", "core (workloads/)", "40.50"),
    perf("CoreMarkProEightCore Benchmarks", "core (workloads/)", "80.50"),
    udp("CPSW UDP Egress Throughput (0% loss)", "Frame Size(bytes)"),
    udp("CPSW UDP Ingress Throughput (0% loss)", "Frame Size(bytes)"),
    udp("CPSW UDP Ingress Throughput (possible loss)", "UDP Datagram Size(bytes)"),
    udp("CPSW UDP Egress Throughput 0 loss", "UDP Datagram Size(bytes)"),
    table(
        f"Benchmarks,{SK}:per-core,{LP}:per-core", "Max Latency (us),41.00,43.00", "Avg Latency (us),8.00,9.00",
        title="Cyclictest", chapter=("Real-time",),
    ),
    *(
        table(
            f"Rail name,Rail voltage(V),{SK}: Power (mW)", "vdd_core,0.85,8.53", "soc_dvdd_3v3,3.30,4.20", "Total,,12.73",
            title=f"{mode} Power Performance", chapter=("Low Power Performance",),
        )
        for mode in ("Deep Sleep", "MCU Only", "I/O Only", "I/O Only + DDR")
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with open_store(str(tmp_path_factory.mktemp("variants") / "results.db")) as opened:
        yield opened


def texts(one: MeasuredGuide) -> dict[tuple[str | None, object], str]:
    return {
        (r.board, r.key if r.quantity else (r.cell.row, r.cell.metric)): r.cell.value.text
        for r in one.readings
        if r.cell.metric is not None
        and not r.table.columns[r.cell.column].is_key
        and r.cell.kind is not CellKind.EMPTY
        and not r.is_alias
    }


def shared_keys(one: MeasuredGuide) -> list[object]:
    """Board and key of each two cells that would be taken for one measurement."""
    keys = Counter(
        (r.board, r.key)
        for r in one.readings
        if r.quantity is not None
        and r.number is not None
        and not r.is_alias
        and r.cell.kind is not CellKind.UNATTRIBUTED
        and not r.table.columns[r.cell.column].is_key
    )
    return [key for key, count in keys.items() if count > 1]


def round_trip(store: Store, path: Path, release: str) -> tuple[MeasuredGuide, MeasuredGuide]:
    import_guide(store, path, release, None, NOW)
    text = rst_writer.write(stored_release.collect(store, release, ()))
    return measurements.of_guide(reader.read(path)), measurements.of_guide(reader.parse("written", text))


@pytest.mark.parametrize("source", ["inline", "before", "after", "rubric"])
def test_every_caption_comes_back_from_the_store(store: Store, tmp_path: Path, source: str) -> None:
    tables = [TableText(one.lines, one.title, source, one.chapter) for one in VARIANTS]
    path = tmp_path / f"{source}.rst"
    path.write_text(guide_family.write_rst(GuideText("Performance Guide of AM62x", tables=tables)))
    release = f"{11 + len(source)}.01"
    before, after = round_trip(store, path, release)
    cells = sum(len(one.lines[1:]) * (len(one.lines[0].split(",")) - 1) for one in tables[:4])
    assert len(texts(before)) > cells
    assert texts(after) == texts(before)
    assert shared_keys(before) == shared_keys(after) == []
    assert export.unknown_cells(before) == []


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=either(4, 40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(guide=generator.guides())
def test_a_built_guide_comes_back_from_the_store(store: Store, tmp_path: Path, form: str, guide: Generated) -> None:
    path = tmp_path / "guide.rst"
    path.write_text(FORMS[form](guide.text))
    release = f"{len(store.runs()) + 20}.01"
    before, after = round_trip(store, path, release)
    assert texts(after) == texts(before)
    assert len(texts(before)) == len(guide.cells)
    assert shared_keys(before) == shared_keys(after) == []


def test_a_history_of_guides_has_a_metric_for_nearly_every_number_and_no_shared_key(
    sheets: Mapping[str, MeasuredGuide], tmp_path: Path
) -> None:
    built = [measurements.of_guide(reader.read(path)) for path in guide_history.write(tmp_path, 10)]
    for one in (*sheets.values(), *built):
        assert shared_keys(one) == []
        numbers = sum(r.number is not None and r.cell.metric is not None for r in one.readings)
        assert len(export.unknown_cells(one)) <= MOST_UNKNOWN * numbers


def test_two_cells_that_a_catalogue_gave_one_key_would_be_noticed() -> None:
    """The check above is one: the same words twice are the guide's own repetition and keep their key."""
    twice = [perf("Linpack", "linpack (Kflops)", value) for value in ("300.00", "310.00")]
    assert len(shared_keys(measurements.of_guide(reader.parse("g", guide_family.mini(*twice))))) == 2
