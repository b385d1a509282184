"""The vendor-compatible view: published cells come out of corrected values, exactly."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from lab.guide import measurements as sheets
from lab.guide.check import annotations as guide_annotations
from lab.guide.read import reader
from lab.guide.write import vendor_view
from lab.guide.write.entries import EntryProvenance, GuideEntry, GuideRelease


def test_the_published_pairing_of_all_five_guides_comes_out_of_the_corrected_values_exactly(
    paths: Mapping[str, Path],
) -> None:
    ranges = 0
    for path in paths.values():
        known = guide_annotations.annotate(sheets.of_guide(reader.read(path)))
        bandwidths = known.sheet.of("lmbench.bw_mem")
        for board in {r.board for r in bandwidths}:
            own = {(r.params["operation"], r.params["size"]): r for r in bandwidths if r.board == board}
            values = {key: known.value(r) for key, r in own.items()}
            printed = {key: r.cell.value.text for key, r in own.items()}
            assert (
                vendor_view.pair_values({key: value for key, value in values.items() if value is not None}) == printed
            )
            ranges += sum("min" in text for text in printed.values())
    assert ranges == 288


def entry(metric: str, value: float, *, samples: int | None = 1, **params: str) -> GuideEntry:
    return GuideEntry("board", metric, params, f"{value:.2f}", value, EntryProvenance("run 1", 1, samples=samples))


def texts(*entries: GuideEntry) -> dict[str, str]:
    """Row or metric -> cell of the vendor's view."""
    release = vendor_view.convert(GuideRelease("11.01", ("board",), entries))
    return {e.origin.row if e.origin else e.metric: e.text for e in release.entries}


@pytest.mark.parametrize(
    ("measured", "row", "cell"),
    [
        (entry("lmbench.lat_mem_rd", 51.88, stride="128", size="1000k"), "latency_for_1.00_mb_block_size (nanosec)", "25.94 (min 0.00, max 51.88)"),
        (entry("lmbench.lat_mem_rd", 24.71, stride="128", size="500k"), "latency_for_0.50_mb_block_size (nanosec)", "24.71"),
        (entry("lmbench.bw_pipe", 507.32), "pipe_bandwidth (MBs)", "507.32"),
        (entry("lmbench.lat_proc", 0.01, kind="proccall"), "procedure_call (microsec)", "0.01"),
        (entry("lmbench.latency", 29.04, of="unix"), "af_unix_sock_stream_latency (microsec)", "29.04"),
    ],
)  # fmt: skip
def test_aliases_are_printed_a_second_time_with_the_false_zero_where_the_vendor_reads_one(
    measured: GuideEntry, row: str, cell: str
) -> None:
    assert texts(measured)[row] == cell


def test_packets_are_rounded_for_udp_and_cut_off_for_ipsec() -> None:
    params = {"port": "cpsw", "direction": "egress", "loss": "0 loss", "frame_bytes": "64"}
    assert texts(entry("ethernet.udp.packets", 36.612, **params)) == {"ethernet.udp.packets": "37.00"}
    assert texts(entry("ipsec.packets", 23.87, algorithm="aes128", engine="software")) == {"ipsec.packets": "23.00"}


def test_a_measured_number_has_two_decimals_whatever_its_uncertainty() -> None:
    values = EntryProvenance("run 1", 1, samples=3, values=(15.96, 16.4163, 16.3584))
    boots = GuideEntry("board", "boot.time", {"medium": "sd"}, "16.2 (min 16.0, max 16.4)", 16.2449, values)
    assert texts(boots) == {"boot.time": "16.24 (min 15.96, max 16.42)"}


def test_a_published_cell_is_the_vendors_already_and_stays_as_it_is() -> None:
    pair = {"operation": "rd", "size": "1mb"}
    assert texts(entry("lmbench.bw_mem", 1303.54, samples=None, **pair)) == {"lmbench.bw_mem": "1303.54"}
