"""Each rule on a guide that has its fault, and on one that has not: a rule must not accuse falsely."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.facts import missing_facts
from support.guide_family import TableText, import_guide, mini, table

from lab.guide import measurements
from lab.guide.check import annotations as guide_annotations
from lab.guide.check import udp_tables
from lab.guide.check.findings import RuleFinding, load_rules, run_rules
from lab.guide.check.rules.lmbench import ORDER
from lab.guide.measurements import MeasuredGuide
from lab.guide.model import Guide
from lab.guide.read import assemble, reader, rst
from lab.guide.write import export, terminal
from lab.results.store import open_store


def sheet_of(text: str) -> MeasuredGuide:
    document = rst.read("g.rst", text)
    modules, tables = tuple(document.modules), assemble.tables(document.tables)
    return measurements.of_guide(
        Guide("g.rst", "rst", document.title, "11.01", modules, tables, tuple(document.conditions), ())
    )


def found(
    rule: str, *tables: TableText, older: Sequence[TableText] = (), modules: Sequence[tuple[str, str]] = ()
) -> list[RuleFinding]:
    before = sheet_of(mini(*older)) if older else None
    return [f for f in run_rules(sheet_of(mini(*tables, modules=modules)), before) if f.rule.id == rule]


def lmbench(*rows: str, boards: Sequence[str] = ("am62xx_sk-fs",)) -> TableText:
    return table(",".join(["Benchmarks", *(f"{b}: perf" for b in boards)]), *rows, title="LMBench Benchmarks")


def texts(findings: Sequence[RuleFinding]) -> str:
    return "\n".join(f.message for f in findings)


# --- LMBench ------------------------------------------------------------------------------------------------------------

_OWN = st.lists(st.integers(10_000, 999_999).map(lambda n: n / 100), min_size=9, max_size=9)


def chain(cells: Sequence[str], size: str = "1mb") -> TableText:
    quoted = [f'"bw_mem-{op}-{size} (MB/s)","{cell}"' for op, cell in zip(ORDER, cells, strict=True)]
    return TableText(['"Benchmarks","am62xx_sk-fs: perf"', *quoted], "LMBench Benchmarks")


def paired(own: Sequence[Sequence[float]]) -> list[str]:
    """What the vendor's parser prints of several runs of all operations: own samples and the next operation's."""
    printed = []
    for number, samples in enumerate(own):
        pool = [*samples, *(own[number + 1] if number + 1 < len(own) else [])]
        low, high = min(pool), max(pool)
        mean = sum(pool) / len(pool)
        printed.append(f"{mean:.2f}" if low == high else f"{mean:.2f} (min {low:.2f}, max {high:.2f})")
    return printed


@given(_OWN)
def test_a_paired_chain_gives_every_own_value_back(own: list[float]) -> None:
    assume(all(abs(a - b) > 0.05 for a, b in itertools.pairwise(own)))
    recovered = {
        f.reading.params["operation"]: f.corrected
        for f in found("lmbench-pairing", chain(paired([[v] for v in own])))
        if f.reading
    }
    assert recovered == dict(zip(ORDER[:-1], own, strict=False))


@given(_OWN, st.integers(2, 6), st.randoms(use_true_random=False))
def test_a_chain_of_several_runs_gives_the_means_back(own: list[float], runs: int, random: object) -> None:
    samples = [[round(v * (1 + 0.01 * (k - runs // 2)), 2) for k in range(runs)] for v in own]
    recovered = {
        f.reading.params["operation"]: f.corrected
        for f in found("lmbench-pairing", chain(paired(samples)))
        if f.reading
    }
    means = {op: sum(s) / runs for op, s in zip(ORDER[:-1], samples, strict=False)}
    assert recovered.keys() == means.keys()
    assert all(abs((recovered[op] or 0) - means[op]) < 0.2 for op in means)


def test_a_value_from_means_is_as_uncertain_as_it_was_found_to_be(tmp_path: Path) -> None:
    own = [1300.0, 648.0, 640.0, 430.0, 1876.0, 1280.0, 884.0, 1735.0, 810.0]
    text = mini(chain(paired([[0.98 * v, v, 1.02 * v] for v in own])), chain(paired([[v] for v in own]), "2mb"))
    (tmp_path / "g.rst").write_text(text)
    one = measurements.of_guide(reader.read(tmp_path / "g.rst"))
    cells = [cell for cell in export.guide_document(one)["cells"] if "bw_mem-rd-" in cell["row"]]
    assert [(cell["own"], cell["own_uncertainty"]) for cell in cells] == [(1300.0, 325.0), (1300.0, None)]
    assert not missing_facts(
        "\n".join(terminal.describe_guide(one)), "16 cells", "recovered", "--json", "8 of them", "25 %"
    )
    evidence = guide_annotations.annotate(one)
    known = [evidence.evidence(r, r.board) for r in one.of("lmbench.bw_mem") if r.params["operation"] == "rd"]
    assert [(k.low, k.high) for k in known] == [(975.0, 1625.0), (None, None)]
    with open_store(str(tmp_path / "results.db")) as store:
        import_guide(store, tmp_path / "g.rst", None, None, dt.datetime(2026, 1, 2, tzinfo=dt.UTC))
        stored = {s.params["size"]: s for s in store.samples(1, "lmbench.bw_mem") if s.params["operation"] == "rd"}
    assert {size: (s.value, s.uncertainty) for size, s in stored.items()} == {
        "1mb": (1300.0, 325.0),
        "2mb": (1300.0, 0.05),  # the printed numbers have one decimal
    }


def test_a_sound_chain_is_not_accused() -> None:
    own = [1300.0, 648.0, 640.0, 430.0, 1876.0, 1280.0, 884.0, 1735.0, 810.0]
    assert found("lmbench-pairing", chain([f"{v:.2f}" for v in own])) == []
    assert found("lmbench-pairing", chain([f"{v:.2f} (min {0.98 * v:.2f}, max {1.02 * v:.2f})" for v in own])) == []


def test_a_chain_without_its_end_is_suspect_and_not_corrected() -> None:
    own = [1300.0, 648.0, 640.0, 430.0, 1876.0, 1280.0, 884.0, 1735.0, 810.0]
    cut = chain(paired([[v] for v in own]))
    cut.lines = cut.lines[:-1]
    findings = found("lmbench-pairing", cut)
    assert len(findings) == 8
    assert {(str(f.severity), f.corrected) for f in findings} == {("suspect", None)}


ONE_MB = "latency_for_1.00_mb_block_size (nanosec)"


def test_a_false_zero_is_corrected_from_the_row_that_holds_the_value() -> None:
    rows = ("lat_mem_rd-stride128-sz1000k (ns),51.88", f'"{ONE_MB}","25.94 (min 0.00, max 51.88)"')
    (finding,) = found("lmbench-false-zero", lmbench(*rows))
    assert finding.corrected == 51.88


def test_a_false_zero_alone_is_corrected_from_its_maximum_if_one_run_was_made() -> None:
    (finding,) = found("lmbench-false-zero", lmbench(f'"{ONE_MB}","25.94 (min 0.00, max 51.88)"'))
    assert finding.corrected == 51.88
    (finding,) = found("lmbench-false-zero", lmbench(f'"{ONE_MB}","21.15 (min 0.00, max 52.39)"'))
    assert (finding.corrected, str(finding.severity)) == (None, "suspect")


def test_a_latency_without_a_zero_is_not_accused() -> None:
    assert found("lmbench-false-zero", lmbench(f"{ONE_MB},51.88", f'"{ONE_MB}","51.00 (min 50.00, max 52.00)"')) == []


def test_aliases_that_disagree_are_found_and_equal_ones_are_not() -> None:
    (finding,) = found("alias-disagrees", lmbench("lat_sem (us),2.98", "semaphore_latency (microsec),2.89"))
    assert "both are the same sample" in finding.message
    assert found("alias-disagrees", lmbench("lat_sem (us),2.98", "semaphore_latency (microsec),2.98")) == []
    rows = ("lat_mem_rd-stride128-sz1000k (ns),51.88", f'"{ONE_MB}","25.94 (min 0.00, max 51.88)"')
    assert found("alias-disagrees", lmbench(*rows)) == []


@pytest.mark.parametrize(
    ("row", "severity"),
    [
        ("lat_proc-proccall (us),0.01", "info"),
        ("lat_ctx-4-128k (us),0.00", "warning"),
        ("lat_sem (us),2.98", None),
        ("bw_pipe (MB/s),0.01", None),
    ],
)
def test_latencies_that_two_decimals_cannot_show(row: str, severity: str | None) -> None:
    assert [str(f.severity) for f in found("printed-resolution", lmbench(row))] == [severity] * (severity is not None)


# --- clocks -------------------------------------------------------------------------------------------------------------


def processor(board: str, clock: float, title: str = "Dhrystone Benchmarks") -> TableText:
    return table(f"Benchmarks,{board}: perf", f"cpu_clock (MHz),{clock:.2f}", title=title)


SK = ("AM62x SK", "AM62x Starter Kit with ARM running at 1.4GHz, DDR data rate 1600 MT/S")
SIP = ("AM62SIP SK", "AM62SIP Starter Kit rev E1 with ARM running at 1.4GHz, 512MB LPDDR4")
BOTH = "Benchmarks,am62xx_sk-fs: perf,am62xxsip_sk-fs: perf"


def test_the_clock_is_decided_by_the_arithmetic_of_a_sister_board() -> None:
    clocks = table(BOTH, "cpu_clock (MHz),1400.00,1250.00", title="Dhrystone Benchmarks")
    slow = table(BOTH, "lat_ops-int-add (ns),0.72,0.80", "lat_ops-int-div (ns),4.29,4.81", title="LMBench Benchmarks")
    fast = table(BOTH, "lat_ops-int-add (ns),0.72,0.72", "lat_ops-int-div (ns),4.29,4.29", title="LMBench Benchmarks")
    (finding,) = found("clock-contradicts", clocks, slow, modules=[SK, SIP])
    assert not missing_facts(finding.message, "table of modules")
    (finding,) = found("clock-contradicts", clocks, fast, modules=[SK, SIP])
    assert finding.corrected == 1400.0
    (finding,) = found("clock-contradicts", clocks, modules=[SK, SIP])
    assert str(finding.severity) == "suspect"


def test_a_clock_within_the_printed_digits_is_not_accused() -> None:
    ax = ("AM62Ax SK", "AM62Ax Starter Kit with ARM running at 1.2GHz, DDR data rate 3733 MT/S")
    assert found("clock-contradicts", processor("am62axx_sk-fs", 1250.0), modules=[ax]) == []
    assert found("clock-contradicts", processor("am62xx_sk-fs", 1400.0), modules=[SK]) == []
    assert found("clock-contradicts", processor("am62xx_sk-fs", 1250.0), modules=[("Cable", "no clock")]) == []
    assert (
        len(
            found(
                "clock-contradicts",
                processor("am62lxx_evm-fs", 1250.0),
                modules=[("AM62Lx EVM", "ARM running at 1.4GHz")],
            )
        )
        == 1
    )


@pytest.mark.parametrize(
    ("rate", "seconds"),
    [("7407407.50", 27), ("7142857.00", 28), ("6451613.00", 31), ("4347826.00", 46), ("4081632.80", 49)],
)
def test_dhrystone_is_runs_over_whole_seconds(rate: str, seconds: int) -> None:
    (finding,) = found(
        "quantised-dhrystone",
        table("Benchmarks,am62xx_sk-fs: perf", f"dhrystone_per_second (DhrystoneP),{rate}", title="Dhrystone"),
    )
    assert f"in {seconds} whole seconds" in finding.message
    assert finding.resolution == pytest.approx(float(rate) / seconds)


def test_a_dhrystone_rate_between_ticks_is_not_called_one() -> None:
    assert (
        found(
            "quantised-dhrystone",
            table("Benchmarks,a1-fs: perf", "dhrystone_per_second (DhrystoneP),7300000.00", title="Dhrystone"),
        )
        == []
    )


@pytest.mark.parametrize(
    ("rate", "step"), [("10000.00", 5000.0), ("5000.00", 5000.0), ("3333.30", 1666.7), ("2500.00", 833.3)]
)
def test_whetstone_is_loops_over_whole_seconds(rate: str, step: float) -> None:
    (finding,) = found(
        "quantised-whetstone", table("Benchmarks,a1-fs: perf", f"whetstone (MIPS),{rate}", title="Whetstone")
    )
    assert finding.resolution == pytest.approx(step, abs=0.1)


def test_a_whetstone_rate_between_ticks_is_not_called_one() -> None:
    assert (
        found("quantised-whetstone", table("Benchmarks,a1-fs: perf", "whetstone (MIPS),4200.00", title="Whetstone"))
        == []
    )


def test_dd_and_uboot_have_their_ticks_where_they_matter() -> None:
    header = "File size (Mbytes),a1-fs: Raw Read Throughput (Mbytes/sec)"
    (fast,) = found("quantised-dd", table(header, "50,172.41", title="OSPI Raw Flash Driver"))
    assert fast.resolution == pytest.approx(172.41 * 0.01 / 0.29, rel=0.01)
    assert found("quantised-dd", table(header, "50,29.07", title="OSPI Raw Flash Driver")) == []
    header = "File size (bytes in hex),a1-fs: Write Throughput (Kbytes/sec),a1-fs: Read Throughput (Kbytes/sec)"
    (short,) = found("quantised-uboot", table(header, "400000,39009.52,83591.84", title="UBOOT MMCSD FAT"))
    assert "4096 KiB in 49 ms" in short.message
    assert found("quantised-uboot", table(header, "4000000,39009.52,83591.84", title="UBOOT MMCSD FAT")) == []


# --- power --------------------------------------------------------------------------------------------------------------

POWER = "Rail name,Rail voltage(V),Power (mW)"


def rails(*rows: str) -> TableText:
    return table(POWER, *rows, title="Deep Sleep Power Performance")


def test_rails_below_five_steps_of_the_sensor_are_named() -> None:
    findings = found(
        "sensor-resolution",
        rails("vdd_core,0.85,8.53", "soc_dvdd_1v8,1.80,0.77", "vdd_off,0.00,0.00", "soc_dvdd_3v3,3.30,5.19"),
    )
    assert [f.reading.cell.row for f in findings if f.reading] == ["soc_dvdd_1v8"]
    assert "1.7 steps" in findings[0].message


def test_rails_that_add_up_within_their_rounding_are_not_accused() -> None:
    rows = [
        "vdd_core,0.85,8.53",
        "vddr_core,0.85,n/a",
        "soc_dvdd_3v3,3.30,5.19",
        "soc_dvdd_1v8,1.80,1.04",
        "vdda_1v8,1.80,2.12",
        "vdd_ddr4,1.10,7.50",
    ]
    assert found("rail-total", rails(*rows, "Total,,24.37")) == []
    (short,) = found("rail-total", rails(*rows, "Total,,20.37"))
    assert (short.corrected, str(short.severity)) == (24.38, "error")
    (more,) = found("rail-total", rails(*rows, "Total,,30.37"))
    assert (more.corrected, str(more.severity)) == (24.38, "suspect")
    assert "vddr_core has no number" in more.message
    (sure,) = found("rail-total", rails("vdd_core,0.85,8.53", "vdda_1v8,1.80,2.12", "Total,,12.65"))
    assert (sure.corrected, str(sure.severity)) == (10.65, "error")


def test_a_total_of_rails_that_are_off_is_not_accused() -> None:
    off = table(
        POWER,
        "vdd_core,0.00,0.00",
        "vdd_rtc,0.75,0.03",
        "vdd_rtc_1v8,1.80,0.01",
        "Total,,0.05",
        title="RTC Only Power Performance",
    )
    assert found("rail-total", off) == []
    assert found("all-zero", off) == []


def test_about_so_much_may_be_a_tenth_more() -> None:
    assert found("rail-total", rails("vdd_core,0.85,~11.0", "vdda_1v8,1.80,2.12", "Total,,13.90")) == []


def test_a_ddr4_rail_with_the_voltage_of_lpddr4_is_suspect() -> None:
    assert len(found("ddr-voltage", rails("vdd_ddr4,1.10,7.50"))) == 1
    assert found("ddr-voltage", rails("vdd_lpddr4,1.10,7.50")) == []
    assert found("ddr-voltage", rails("vdd_lpddr4/vdd_ddr4,1.10,7.50")) == []
    assert found("ddr-voltage", rails("vdd_ddr4,1.20,7.50")) == []


# --- Ethernet -----------------------------------------------------------------------------------------------------------


def udp(
    title: str, *rows: tuple[int, float, float] | tuple[int, float, float, float], counted: str = "payload"
) -> TableText:
    """Rows of frame size, thousand packets a second, CPU load and, for possible loss, loss in percent."""
    columns = ["THROUGHPUT (Mbits/sec)", "Packets Per Second (kPPS)", "CPU Load % (LOCAL_CPU_UTIL)", "Packet Loss %"]
    lines = []
    for frame, packets, *rest in rows:
        size = frame if counted == "frame" else frame - 46
        cells = [f"{packets * 8 * size / 1000:.2f}", f"{round(packets):.2f}", *(f"{value:.2f}" for value in rest)]
        lines.append(",".join([str(frame), *cells]))
    header = ",".join(["Frame Size(bytes)", *(f"am62xx_sk-fs: {c}" for c in columns[: len(rows[0])])])
    return table(header, *lines, title=f"CPSW2g UDP {title}")


EGRESS, INGRESS, LOSSY = "Egress Throughput 0 loss", "Ingress Throughput 0 loss", "Ingress Throughput possible loss"
SOUND = ((64, 127.0, 40.0), (128, 122.0, 40.0), (256, 123.0, 40.0), (1024, 119.0, 45.0), (1518, 81.1, 34.0))


@pytest.mark.parametrize(
    ("counted", "said"),
    [
        ("payload", "the payload of frames of the row's size;"),
        ("frame", "the row's size; row 1024: whole frames are counted"),
    ],
)
def test_what_a_udp_throughput_counts_is_told_from_the_packets(counted: str, said: str) -> None:
    (finding,) = found("udp-definition", udp(EGRESS, *SOUND, counted=counted))
    assert f"counts packets * 8 * {said}" in finding.message
    assert str(finding.severity) == "info"


def test_a_changed_definition_is_a_warning() -> None:
    older = [udp(EGRESS, *SOUND, counted="payload")]
    (finding,) = found("udp-definition", udp(EGRESS, *SOUND, counted="frame"), older=older)
    assert (str(finding.severity), "not comparable" in finding.message) == ("warning", True)
    (same,) = found("udp-definition", udp(EGRESS, *SOUND, counted="payload"), older=older)
    assert str(same.severity) == "info"


@pytest.mark.parametrize(
    ("packets", "said"),
    [
        (114.65, "row 1024: the datagrams have the size that the column calls the frame's"),
        (118.0, "row 1024: whole frames are counted"),
        (100.0, "whether whole frames or datagrams of that size is undecided"),
    ],
)
def test_the_wire_tells_frames_from_datagrams_or_nothing_does(packets: float, said: str) -> None:
    rows = ((64, 127.0, 40.0), (256, 100.0, 40.0), (1024, packets, 45.0))
    (finding,) = found("udp-definition", udp(EGRESS, *rows, counted="frame"))
    assert said in finding.message
    assert not missing_facts(
        finding.message, "datagrams of 1024 bytes", "939.4 Mbit/s", "frames of 1024 bytes", "980.8"
    )


def test_a_row_of_another_definition_is_told_apart_from_its_table() -> None:
    one = udp(EGRESS, (64, 127.0, 40.0), (128, 122.0, 40.0), (256, 110.0, 40.0), (1518, 60.0, 30.0), counted="frame")
    one.lines = [line.replace("728.64", "706.56") for line in one.lines]
    (finding,) = found("udp-definition", one)
    assert not missing_facts(finding.message, "row 1518", "packets * 8 *", "payload")


def test_the_limits_of_the_wire_are_those_of_ethernet() -> None:
    assert round(udp_tables.datagram_limit(1024), 2) == 939.45  # 1024 of 1090 bytes
    assert round(udp_tables.datagram_limit(1472), 1) == 957.1
    assert round(udp_tables.datagram_limit(1518), 1) == 924.5  # two fragments
    assert round(udp_tables.frame_limit(1024, udp_tables.Definition.PAYLOAD), 1) == 936.8
    assert round(udp_tables.frame_limit(1024, udp_tables.Definition.FRAME), 1) == 980.8


def test_a_frame_size_that_is_a_datagram_is_named() -> None:
    (finding,) = found("udp-size-label", udp(EGRESS, (64, 100.0, 40.0), (1472, 60.0, 30.0), counted="frame"))
    assert not missing_facts(finding.message, "1472", "frame of 1518 bytes")
    assert found("udp-size-label", udp(EGRESS, (1472, 60.0, 30.0), (1518, 60.0, 30.0))) == []
    assert found("udp-size-label", udp(EGRESS, *SOUND)) == []
    full = udp(EGRESS, (64, 100.0, 40.0), (1024, 119.6, 45.0))
    full.lines = [line.replace("935.75", "939.05") for line in full.lines]
    (finding,) = found("udp-size-label", full)
    assert not missing_facts(finding.message, "939.05 Mbit/s", "more payload", "1024 bytes", "936.8 Mbit/s")
    assert found("physical-limit", full) == []


def test_a_row_that_fits_no_definition_is_noted() -> None:
    one = udp(EGRESS, *SOUND)
    one.lines = [line.replace('"127.00"', '"300.00"') for line in one.lines]
    assert [str(f.severity) for f in found("udp-definition", one)] == ["info", "note"]


def test_packets_rounded_to_thousands_are_recovered_from_the_throughput() -> None:
    (finding,) = found("udp-packets-rounded", udp(INGRESS, (64, 7.2, 1.0), (1024, 110.0, 30.0), (1518, 80.0, 30.0)))
    assert finding.corrected == pytest.approx(7.2, abs=0.05)
    assert found("udp-packets-rounded", udp(EGRESS, *SOUND)) == []
    unrounded = udp(INGRESS, (64, 7.2, 1.0), (1024, 110.0, 30.0), (1518, 80.0, 30.0))
    unrounded.lines = [line.replace('"7.00"', '"7.20"') for line in unrounded.lines]
    assert found("udp-packets-rounded", unrounded) == []


def test_a_search_that_stopped_at_a_few_packets_got_stuck() -> None:
    stuck = udp(INGRESS, (64, 12.0, 10.0), (128, 12.0, 10.0), (1024, 119.0, 42.0), (1518, 81.1, 40.0))
    findings = found("udp-search-stuck", stuck)
    assert [(f.reading.cell.row, str(f.severity)) for f in findings if f.reading] == [
        ("64", "error"),
        ("128", "error"),
    ]


def test_a_search_that_is_low_everywhere_is_told_by_the_unlimited_test() -> None:
    low = udp(INGRESS, (64, 6.6, 1.0), (128, 6.6, 1.0), (256, 7.7, 4.0), (1024, 7.4, 3.0))
    lossy = udp(LOSSY, (64, 140.0, 65.0, 74.0), (256, 133.0, 41.0, 0.42), (1024, 115.0, 44.0, 0.03))
    assert [str(f.severity) for f in found("udp-search-stuck", low, lossy)] == ["error"] * 4
    assert found("udp-search-stuck", low) == []


@pytest.mark.parametrize(("arrived", "severities"), [(72.0, ["error"] * 3), (12.0, [])])
def test_a_search_that_is_low_at_every_size_is_told_by_what_arrives_although_much_is_lost(
    arrived: float, severities: list[str]
) -> None:
    low = udp(INGRESS, (64, 2.4, 1.0), (256, 2.4, 1.0), (1024, 2.4, 1.0))
    lossy = udp(LOSSY, (64, arrived, 65.0, 74.0), (256, arrived, 41.0, 31.0), (1024, arrived, 44.0, 2.5))
    assert [str(f.severity) for f in found("udp-search-stuck", low, lossy)] == severities


def test_a_falling_packet_rate_is_no_stuck_search() -> None:
    assert found("udp-search-stuck", udp(EGRESS, *SOUND)) == []
    line_rate = ((64, 374.0, 91.0), (128, 343.0, 90.0), (256, 329.0, 90.0), (1024, 117.0, 81.0), (1518, 81.1, 73.0))
    assert found("udp-search-stuck", udp(INGRESS, *line_rate)) == []


def test_bits_that_fall_with_larger_frames_are_suspect() -> None:
    (finding,) = found("udp-search-stuck", udp(EGRESS, (256, 85.0, 38.0), (1024, 44.0, 21.0), (1518, 15.0, 10.0)))
    assert (str(finding.severity), "50 %" in finding.message or "51 %" in finding.message) == ("suspect", True)


@pytest.mark.parametrize(
    ("packets", "load", "best", "suspects"),
    [
        (44.0, 21.0, 939.0, ["1024"]),
        (44.0, 36.0, 939.0, []),  # the processor was busy
        (60.0, 21.0, 939.0, []),
        (44.0, 21.0, 400.0, []),  # the link was
    ],
)
def test_a_search_that_stopped_while_nothing_was_busy_is_suspect(
    packets: float, load: float, best: float, suspects: list[str]
) -> None:
    rows = ((64, 80.0, 37.0), (128, 87.0, 38.0), (256, 85.0, 38.0), (1024, packets, load))
    other = udp(INGRESS, (64, 30.0, 10.0), (1024, best * 1000 / 8 / 978, 42.0))
    findings = found("udp-search-stuck", udp(EGRESS, *rows), other)
    assert [
        f.reading.cell.row for f in findings if f.reading and f.reading.params["direction"] == "egress"
    ] == suspects


def test_a_frame_size_that_loses_everything_is_a_broken_run() -> None:
    lossy = udp(LOSSY, (64, 191.0, 40.0, 61.0), (1024, 110.0, 42.0, 0.38), (1518, 0.32, 24.0, 99.58))
    (finding,) = found("udp-link-broken", lossy)
    assert finding.reading
    assert finding.reading.cell.row == "1518"
    sound = udp(LOSSY, (64, 176.0, 38.0, 61.0), (1024, 120.0, 41.0, 0.01), (1518, 80.0, 41.0, 0.0))
    assert found("udp-link-broken", sound) == []


TCP_COLUMNS = ("THROUGHPUT (Mbits/sec)", "CPU Load % (LOCAL_CPU_UTIL)")
TCP = ",".join(["Command Used", *(f"am68_sk-fs: {column}" for column in TCP_COLUMNS)])


def test_tcp_that_moves_nothing_is_dead() -> None:
    (finding,) = found("tcp-dead", table(TCP, "netperf,0.02,95.81", title="CPSW2g TCP Bidirectional Throughput"))
    assert len(finding.cells) == 2
    assert found("tcp-dead", table(TCP, "netperf,183.94,37.22", title="ICSSG TCP Bidirectional Throughput")) == []


def test_the_load_label_of_ingress_is_named_once() -> None:
    assert len(found("ingress-cpu-label", udp(INGRESS, *SOUND))) == 1
    assert found("ingress-cpu-label", udp(EGRESS, *SOUND)) == []


# --- storage, USB, audio, graphics -------------------------------------------------------------------------------------

FIO = "Buffer size (bytes),{b}: Write EXT4 Throughput (Mbytes/sec),{b}: Write EXT4 CPU Load (%)"


@pytest.mark.parametrize(
    ("title", "header", "row", "count"),
    [
        ("MMC EXT4 FIO 1G", FIO.format(b="a1-fs"), "1m,105.00,1.0", 1),
        ("MMC EXT4 FIO 1G", FIO.format(b="a1-fs"), "1m,98.00,1.0", 0),
        ("EMMC EXT4 FIO 1G", FIO.format(b="a1-fs"), "1m,410.00,1.0", 1),
        ("EMMC EXT4 FIO 1G", FIO.format(b="a1-fs"), "1m,316.00,1.0", 0),
        ("UBOOT MMCSD FAT", "File size (bytes in hex),a1-fs: Read Throughput (Kbytes/sec)", "1000000,120000.00", 1),
        ("UBOOT UFS RAW", "File size (bytes in hex),a1-fs: Read Throughput (Kbytes/sec)", "1000000,630153.85", 0),
        ("USBDEVICE HIGHSPEED SLAVE_READ_THROUGHPUT", "Number of Blocks,a1-fs: Throughput (MB/sec)", "150,61.00", 1),
        ("USBDEVICE HIGHSPEED SLAVE_READ_THROUGHPUT", "Number of Blocks,a1-fs: Throughput (MB/sec)", "150,44.08", 0),
        ("CPSW2g TCP Bidirectional Throughput", TCP, "netperf,1999.00,50.0", 1),
        ("CPSW2g TCP Bidirectional Throughput", TCP, "netperf,1877.04,12.65", 0),
    ],
)
def test_nothing_is_faster_than_its_medium(title: str, header: str, row: str, count: int) -> None:
    assert len(found("physical-limit", table(header, row, title=title))) == count


def test_a_udp_rate_above_the_wire_is_found_in_its_definition() -> None:
    assert found("physical-limit", udp(EGRESS, (1024, 100.0, 1.0), (1518, 81.1, 34.0))) == []
    (finding,) = found("physical-limit", udp(EGRESS, (1024, 100.0, 1.0), (1518, 90.0, 34.0)))
    assert str(finding.severity) == "suspect"


@pytest.mark.parametrize(("load", "count"), [("100.01", 0), ("99.39", 0), ("0.00", 0), ("134.00", 1), ("-1.00", 1)])
def test_a_cpu_load_is_a_share_of_all_cores(load: str, count: int) -> None:
    one = table(
        "Algorithm,a1-fs: Throughput (Mbps),a1-fs: CPU Load",
        f"aes128,91.30,{load}",
        title="IPSec Software Performance",
    )
    assert len(found("cpu-load-range", one)) == count


def test_loads_that_are_all_full_are_suspected_to_be_the_wrong_column() -> None:
    full = table(FIO.format(b="a1-fs"), "1m,44.60,99.98", "4m,44.90,100.00", "4k,5.32,99.99", title="EMMC EXT4 FIO 1G")
    (finding,) = found("cpu-load-range", full)
    assert (str(finding.severity), "mpstat" in finding.message) == ("suspect", True)


def test_the_average_lies_in_its_range() -> None:
    header = "Boot Configuration,a1-fs: Boot time in seconds: avg(min,max)"

    def boot(cell: str) -> list[RuleFinding]:
        one = TableText(
            [",".join(f'"{c}"' for c in header.split(",", 1)), f'"Linux boot time from SD","{cell}"'],
            "Linux boot time MMCSD",
        )
        return found("range-order", one)

    assert boot("16.24 (min 15.96, max 16.42)") == []
    assert boot("0.17 (min 0.17, max 0.18)") == []
    assert len(boot("16.54 (min 15.96, max 16.42)")) == 1
    assert len(boot("16.24 (min 16.96, max 16.42)")) == 1


def test_a_file_system_table_that_says_raw_is_mislabelled() -> None:
    raw = "Buffer size (bytes),a1-fs: Write Raw Throughput (Mbytes/sec),a1-fs: Write Raw CPU Load (%)"
    assert len(found("raw-label", table(raw, "102400,10.57,1.19", title="MMC EXT4"))) == 1
    assert found("raw-label", table(raw, "1m,42.93,3.42", title="MMC RAW FIO 1G")) == []
    assert found("raw-label", table(FIO.format(b="a1-fs"), "1m,42.93,3.42", title="MMC EXT4 FIO 1G")) == []


def test_one_unit_of_two_meanings_misleads() -> None:
    ospi = table(
        "File size (Mbytes),a1-fs: Raw Read Throughput (Mbytes/sec)", "50,172.41", title="OSPI Raw Flash Driver"
    )
    fio = table(FIO.format(b="a1-fs"), "1m,44.60,1.43", title="EMMC EXT4 FIO 1G")
    (alone,) = found("units-lie", ospi)
    assert str(alone.severity) == "info"
    (both,) = found("units-lie", ospi, fio)
    assert (str(both.severity), both.corrected) == ("warning", 180.78)
    assert found("units-lie", fio) == []


def test_audio_of_another_rate_is_found() -> None:
    header = "Sampling Rate (Hz),a1-fs: Throughput (bits/sec),a1-fs: CPU Load (%)"
    findings = found(
        "audio-rate",
        table(header, "22050,705593.00,0.16", "24000,705595.00,0.19", "48000,1535990.00,1.02", title="Audio Capture"),
    )
    assert [f.reading.cell.row for f in findings if f.reading] == ["24000"]


def test_glmark_of_the_small_window_is_not_1080p() -> None:
    header = "Benchmark,a1-fs: Score,b2-fs: Score,c3-fs: Score"
    wrong = table(
        header, "Glmark2-Wayland,201.00,219.00,213.00", "Glmark2-Wayland 1920x1080,62.00,219.00", title="Glmark2"
    )
    (finding,) = found("glmark-size", wrong)
    assert finding.reading
    assert finding.reading.number == 219.0
    right = table(
        header, "Glmark2-Wayland,201.00,219.00,213.00", "Glmark2-Wayland 1920x1080,62.00,66.00,60.00", title="Glmark2"
    )
    assert found("glmark-size", right) == []


def test_test_numbers_and_blocks_are_explained() -> None:
    gl = table(
        "Benchmark,a1-evm: Test Number,a1-evm: Fps",
        "Egypt,2500005.00,4.50",
        "Trex,2500003.00,4.33",
        title="GLBenchmark",
    )
    (finding,) = found("identifier", gl)
    assert len(finding.cells) == 2
    usb = "Number of Blocks,a1-fs: Throughput (MB/sec)"
    assert len(found("usb-blocks", table(usb, "150,33.00", title="USBDEVICE HIGHSPEED SLAVE_READ_THROUGHPUT"))) == 1
    assert found("usb-blocks", table(usb, "15,33.00", title="USBDEVICE HIGHSPEED SLAVE_READ_THROUGHPUT")) == []


# --- IPSec, zeros, rows -------------------------------------------------------------------------------------------------

IPSEC = "Algorithm,a1-fs: Throughput (Mbps),a1-fs: Packets/Sec,a1-fs: CPU Load"


def ipsec(*rows: str) -> TableText:
    return table(IPSEC, *rows, title="IPSec Software Performance")


def test_a_tunnel_that_carries_nothing_is_broken() -> None:
    (finding,) = found("ipsec-broken", ipsec("aes128,1.20,0.00,51.32", "aes192,276.90,24.00,48.00"))
    assert not missing_facts(finding.message, "another algorithm", "277")
    assert found("ipsec-broken", ipsec("3des,52.80,4.00,52.54", "aes128,91.30,8.00,24.09")) == []


def test_an_average_over_broken_tunnels_is_broken_too() -> None:
    mixed = TableText(
        [
            ",".join(f'"{c}"' for c in IPSEC.split(",")),
            '"aes128","115.90 (min 0.20, max 414.10)","9.80 (min 0.00, max 36.00)","48.24"',
        ],
        "IPSec Software Performance",
    )
    (finding,) = found("ipsec-broken", mixed)
    assert not missing_facts(finding.message, "runs from 0.2 to 414.1")


def test_packets_of_ipsec_are_thousands() -> None:
    (finding,) = found("ipsec-kilopackets", ipsec("aes128,267.40,23.00,48.00"))
    assert finding.corrected == 23000.0
    assert found("ipsec-kilopackets", ipsec("aes128,267.40,23875.00,48.00")) == []
    assert found("ipsec-kilopackets", ipsec("aes128,1.20,0.00,51.32")) == []


def test_a_table_of_zeros_was_not_measured() -> None:
    header = "TCP Window Size(Kbytes),am654x-evm: Bandwidth (Mbits/sec)"
    (finding,) = found("all-zero", table(header, "8,0.00", "16,0.00", "32,0.00", title="PCIe Ethernet performance"))
    assert len(finding.cells) == 3
    assert found("all-zero", table(header, "8,0.00", "16,0.10", title="PCIe Ethernet performance")) == []
    assert found("all-zero", ipsec("aes128,1.20,0.00,51.32", "aes192,1.30,0.00,51.25")) == []


def test_short_and_overlong_rows_are_told_apart() -> None:
    header = "Benchmark,a1-fs: Score,b2-fs: Score"
    short = table(header, "DRM,1.00,2.00", "1080p,3.00", title="Glmark2")
    long = table(header, "DRM,1.00,2.00", "1080p,3.00,4.00,5.00", title="Glmark2")
    assert "2 of 3 cells" in texts(found("left-packed", short))
    assert found("overlong-row", short) == []
    assert "has 4 cells" in texts(found("overlong-row", long))
    assert found("left-packed", long) == []


def test_a_row_that_stands_twice_with_other_numbers_is_suspect() -> None:
    assert len(found("duplicate-row", lmbench("lat_sem (us),2.98", "lat_sem (us),3.10"))) == 1
    assert found("duplicate-row", lmbench("lat_sem (us),2.98", "lat_sem (us),2.98")) == []


def test_a_table_of_another_family_is_suspect() -> None:
    own = [table("Benchmarks,am654x-evm: perf", f"test{n} (Iterations),1.00", title=f"NBench {n}") for n in range(12)]
    foreign = table("Benchmarks,am43xx-gpevm: perf", "add (MB/s),324.98", title="Stream Benchmarks")
    (finding,) = found("foreign-board", *own, foreign)
    assert "am43xx-gpevm" in finding.message
    assert found("foreign-board", *own) == []
    sister = table("Benchmarks,am65xx-sk: perf", "add (MB/s),324.98", title="Stream Benchmarks")
    assert found("foreign-board", *own, sister) == []


# --- outliers -----------------------------------------------------------------------------------------------------------

THREE = "Command Used,am62xx_lp_sk-fs: THROUGHPUT (Mbits/sec),am62xx_sk-fs: THROUGHPUT (Mbits/sec),am62xxsip_sk-fs: THROUGHPUT (Mbits/sec)"


def test_one_board_far_from_two_others_is_suspect() -> None:
    (finding,) = found(
        "outlier-boards",
        table(THREE, "netperf,326.74,1586.14,1807.73", title="TCP Bidirectional Throughput Interrupt Pacing"),
    )
    assert finding.reading
    assert finding.reading.board == "am62xx_lp_sk-fs"
    assert (
        found("outlier-boards", table(THREE, "netperf,1669.02,1442.31,1403.67", title="TCP Bidirectional Throughput"))
        == []
    )


@pytest.mark.parametrize(("load", "severity"), [("11.98", "suspect"), ("40.00", "note")])
def test_a_slow_network_is_a_fault_of_the_run_where_the_processor_had_nothing_to_do(load: str, severity: str) -> None:
    boards = ("am62xx_lp_sk-fs", "am62xx_sk-fs", "am62xxsip_sk-fs")
    header = ",".join(["Command Used", *(f"{b}: {c}" for b in boards for c in TCP_COLUMNS)])
    row = f"netperf,326.74,{load},1586.14,47.14,1807.73,48.75"
    (finding,) = found("outlier-boards", table(header, row, title="TCP Bidirectional Throughput Interrupt Pacing"))
    assert finding.reading
    assert (finding.reading.board, str(finding.severity)) == (boards[0], severity)


def test_of_two_boards_only_a_row_against_their_habit_is_suspect() -> None:
    ospi = [
        table(f"File size (Mbytes),{board}: Raw Read Throughput (Mbytes/sec)", row, title="OSPI Raw Flash Driver")
        for board, row in (("am62xx_sk-fs", "50,172.41"), ("am62xx_lp_sk-fs", "50,29.07"))
    ]
    assert found("outlier-boards", *ospi) == []  # one has NOR flash, the other NAND
    emmc = [
        table(FIO.format(b=board), *rows, title="EMMC EXT4 FIO 1G")
        for board, rows in (
            ("am62xx_sk-fs", ("1m,44.60,1.4", "4m,44.90,1.1", "4k,5.32,2.2", "256k,35.40,1.5")),
            ("am62xx_lp_sk-fs", ("1m,61.50,2.0", "4m,61.70,1.3", "4k,51.40,19.5", "256k,61.60,2.3")),
        )
    ]
    (finding,) = found("outlier-boards", *emmc)
    assert finding.reading
    assert (finding.reading.board, finding.reading.cell.row) == ("am62xx_sk-fs", "4k")


def test_a_board_that_is_always_slower_is_no_outlier() -> None:
    boards = ("am62xx_lp_sk-fs", "am62xx_sk-fs", "j784s4-evm")
    rows = [
        f"lat_syscall-{call} (us),{v:.2f},{0.9 * v:.2f},{0.2 * v:.2f}"
        for call, v in (("fstat", 2.2), ("null", 0.5), ("open", 180.0), ("read", 0.9))
    ]
    assert found("outlier-boards", lmbench(*rows, boards=boards)) == []


def test_a_run_far_from_the_older_release_is_suspect_unless_all_boards_moved() -> None:
    boards = ("am62xx_lp_sk-fs", "am62xx_sk-fs")
    older = [lmbench("lat_sem (us),1.61,1.64", "lat_pipe (us),21.71,19.40", "lat_tcp (us),1.05,0.93", boards=boards)]
    alone = lmbench("lat_sem (us),1.60,4.90", "lat_pipe (us),21.00,19.00", "lat_tcp (us),1.05,0.93", boards=boards)
    together = lmbench("lat_sem (us),4.37,4.90", "lat_pipe (us),21.00,19.00", "lat_tcp (us),1.05,0.93", boards=boards)
    (finding,) = found("outlier-older", alone, older=older)
    assert finding.reading
    assert finding.reading.board == "am62xx_sk-fs"
    assert found("outlier-older", together, older=older) == []
    assert found("outlier-older", alone) == []


# --- the book -----------------------------------------------------------------------------------------------------------


def test_rules_have_their_own_ids() -> None:
    ids = [rule.id for rule in load_rules()]
    assert len(ids) == len(set(ids))
    assert ids == sorted(ids)


def test_an_ordinary_guide_is_not_accused_of_anything_wrong() -> None:
    boards = ("am62xx_sk-fs", "am62xx_lp_sk-fs")
    tables = [
        lmbench(
            "lat_sem (us),2.98,3.20", "bw_pipe (MB/s),507.32,480.00", "lat_ops-int-add (ns),0.72,0.80", boards=boards
        ),
        udp(EGRESS, *SOUND),
        rails("vdd_core,0.85,109.46", "vdda_1v8,1.80,10.94", "Total,,120.40"),
        table(FIO.format(b="am62xx_sk-fs"), "1m,44.60,1.43", "4k,40.10,12.00", title="EMMC EXT4 FIO 1G"),
    ]
    severities = {str(f.severity) for f in run_rules(sheet_of(mini(*tables, modules=[SK])))}
    assert severities <= {"info"}
