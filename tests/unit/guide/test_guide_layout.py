"""boardlab's low-power numbers stand where guides have those of the same definition; the others do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.guide_family import GuideText, table, write_rst

from lab.guide import layout, measurements
from lab.guide.layout import guide_name
from lab.guide.read import raw_table, reader
from lab.guide.write import stored_release
from lab.host.clock import utc_now
from lab.metrics import by_name
from lab.results import AttemptRecord, SampleRecord, open_store

WOKEN = {"mode": "deep_sleep", "wake": "uart"}


@pytest.mark.parametrize(
    ("metric", "params", "row", "title"),
    [
        ("lpm.deep_sleep.resume_kernel", WOKEN, "Deep Sleep", "LPM Resume Latency Performance"),
        (
            "lpm.mcu_only.resume_kernel",
            {"mode": "mcu_only", "wake": "mcu"},
            "MCU Only",
            "LPM Resume Latency Performance",
        ),
        ("lpm.deep_sleep.power_rail", {**WOKEN, "rail": "vdd_core"}, "vdd_core", "Deep Sleep Power Performance"),
        ("lpm.deep_sleep.power_total", {**WOKEN, "rail": "total"}, "total", "Deep Sleep Power Performance"),
    ],
)
def test_a_number_of_the_vendors_definition_has_its_row(
    metric: str, params: dict[str, str], row: str, title: str
) -> None:
    name = guide_name(metric, params, "am62xx_sk")
    place = layout.load().place(name.metric, name.params)
    assert place is not None
    assert (place.row, place.title) == (row, title)
    assert raw_table.unit(place.column) == by_name(name.metric).unit == by_name(metric).unit


@pytest.mark.parametrize(("medium", "title"), [("sd", "MMC VFAT dd"), ("emmc", "EMMC VFAT dd")])
def test_files_by_dd_have_rows_as_a_vendor_prints_them_and_are_read_as_such(medium: str, title: str) -> None:
    params = {"buffer": "5242880", "direction": "read", "filesystem": "vfat", "medium": medium}
    place = layout.load().place("storage.dd.throughput", params)
    assert place is not None
    assert (place.title, place.row, place.column) == (title, "5242880", "Read VFAT Throughput (Mbytes/sec)")
    header = f"{place.keys[0]},a1-fs: {place.column}"
    text = write_rst(GuideText("Guide", tables=[table(header, f"{place.row},23.83", title=title)]))
    (reading,) = measurements.of_guide(reader.parse("guide.rst", text)).readings
    assert (reading.metric, dict(reading.params)) == ("storage.dd.throughput", params)


def test_a_number_is_printed_in_the_unit_in_which_it_was_measured(tmp_path: Path) -> None:
    rail = {**WOKEN, "rail": "vdd_core"}
    with open_store(str(tmp_path / "results.db")) as store:
        run = store.begin_run("low_power", "am62xx_sk", "b1", "11.01", plan={}, provenance={})
        for cycle, power_mw in enumerate((7.1, 7.3), 1):
            samples = (SampleRecord("lpm.deep_sleep.power_rail", rail, power_mw, 0.01),)
            attempt = AttemptRecord(cycle, 1, WOKEN, "ok", None, None, "", utc_now(), 1.0, samples)
            store.record_attempt(run.id, attempt)
        store.finish_run(run.id, "completed")
        (entry,) = stored_release.collect(store, "11.01", ()).entries
    assert (entry.metric, entry.text) == ("power.rail", "7.2 (min 7.1, max 7.3)")


@pytest.mark.parametrize("flow", ["quiet", "falcon_quiet", "sbl_quiet", "efi_quiet"])
@pytest.mark.parametrize(
    "metric", ["boot.time", "boot.power_on_to_prompt", "boot.spl_to_prompt", "boot.efi_to_prompt"]
)
def test_each_flow_has_its_row(metric: str, flow: str) -> None:
    place = layout.load().place(metric, {"medium": "sd", "flow": flow})
    assert place is not None
    assert place.row.endswith(f"rom MMCSD with boot flow {flow}")


def test_a_rails_row_has_its_nominal_voltage() -> None:
    name = guide_name("lpm.deep_sleep.power_rail", {**WOKEN, "rail": "vdd_core"}, "am62xx_sk")
    assert name.keys == {"Rail voltage(V)": "0.85"}


@pytest.mark.parametrize("metric", ["lpm.deep_sleep.resume_wake_to_prompt", "lpm.s2idle.resume_kernel", "boot.time"])
def test_a_number_that_guides_do_not_have_keeps_its_name(metric: str) -> None:
    assert guide_name(metric, WOKEN, "am62xx_sk").metric == metric
