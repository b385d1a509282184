"""Rules that the guides in the wild taught: each on a guide that has its fault, and on ones that have not."""

from __future__ import annotations

import pytest
from support.facts import missing_facts
from support.guide_family import TableText, table
from test_guide_rules import found, texts

BOARD = "am62xx_sk-fs"
NBENCH = ("assignment", "fourier", "huffman", "idea", "lu_decomposition", "numeric_sort")


def perf(title: str, *rows: str, boards: tuple[str, ...] = (BOARD,)) -> TableText:
    return table(",".join(["Benchmarks", *(f"{b}: perf" for b in boards)]), *rows, title=title)


def clock(*cells: str, boards: tuple[str, ...] = (BOARD,)) -> TableText:
    quoted = ",".join(f'"{cell}"' for cell in cells)
    return perf("Dhrystone", f"cpu_clock (MHz),{quoted}", boards=boards)


def nbench(*columns: float, boards: tuple[str, ...] = (BOARD,), odd: float = 1.0) -> TableText:
    rows = []
    for number, name in enumerate(NBENCH):
        base = 7.77 * (number + 1) * (odd if number == 0 else 1.0)
        rows.append(f"{name} (Iterations)," + ",".join(f"{base * factor:.4f}" for factor in columns))
    return perf("NBench", *rows, boards=boards)


# --- carried-over -------------------------------------------------------------------------------------------------------


def test_a_table_of_the_older_guide_was_not_measured() -> None:
    (finding,) = found("carried-over", nbench(1.0), older=[nbench(1.0)])
    assert not missing_facts(finding.message, "all 6 numbers", f"{BOARD}", "'NBench'", "older guide")
    assert found("carried-over", nbench(1.0), older=[nbench(1.0, odd=1.001)]) == []
    assert found("carried-over", nbench(1.0)) == []


def test_a_guide_of_old_numbers_is_said_once() -> None:
    stream = [
        perf(f"{name} Stream", *(f"{k} (MB/s),{1234.5 + i}" for i, k in enumerate(("copy", "scale", "add", "triad"))))
        for name in "A"
    ]
    openssl = table(
        f"Algorithm,Buffer Size (in bytes),{BOARD}: throughput (KBytes/Sec)", *(f"aes,{2**n},{n * 1111.25}" for n in range(4, 9)),
        title="OpenSSL Performance",
    )  # fmt: skip
    audio = table(
        f"Sampling Rate (Hz),{BOARD}: Throughput (bits/sec)",
        *(f"{n},{n * 32 + 5}" for n in (8000, 16000, 32000, 48000)),
        title="Audio Capture",
    )
    tables = [nbench(1.0), *stream, openssl, audio]
    (finding,) = found("carried-over", *tables, older=tables)
    assert not missing_facts(finding.message, "nothing", "again")
    assert "4 tables" in finding.message


def test_numbers_that_repeat_by_themselves_are_no_copies() -> None:
    rows = [
        f"lat_ops-int-{o} (ns),{v}"
        for o, v in (("add", 0.71), ("mul", 2.86), ("div", 4.29), ("mod", 5.01), ("bit", 0.72))
    ]
    same = [perf("LMBench", *rows), clock("1400.00")]
    assert found("carried-over", *same, older=same) == []


@pytest.mark.parametrize(
    ("before", "after", "exchanged"),
    [
        ((1.0, 1.1), (1.1, 1.0), True),
        ((1.0, 1.1), (1.11, 0.99), True),  # measured again
        ((1.0, 1.1), (1.0, 1.1), False),
        ((1.0, 1.1), (1.1, 1.1), False),  # only one board moved
        ((1.0, 1.02), (1.02, 1.0), False),  # as near as equal runs are
    ],
)
def test_boards_with_each_others_numbers_have_exchanged_columns(
    before: tuple[float, float], after: tuple[float, float], exchanged: bool
) -> None:
    boards = (BOARD, "am62xx_lp_sk-fs")
    findings = found("boards-exchanged", nbench(*after, boards=boards), older=[nbench(*before, boards=boards)])
    assert len(findings) == exchanged
    assert all(not missing_facts(f.message, *boards, "6 of 6 rows") for f in findings)
    assert found("boards-exchanged", nbench(*after, boards=boards)) == []


# --- runs and clocks ----------------------------------------------------------------------------------------------------


def test_runs_that_differ_several_times_have_no_average() -> None:
    header = f'Boot Configuration,"{BOARD}: Boot time in seconds: avg(min,max)"'
    boot = table(header, 'Linux boot time from MMCSD,"46.00 (min 15.00, max 128.00)"', title="Linux boot time")
    (finding,) = found("wide-range", boot)
    assert not missing_facts(finding.message, "15 to 128", "8.5 times")
    sound = table(header, 'Linux boot time from MMCSD,"16.00 (min 15.00, max 18.00)"', title="Linux boot time")
    assert found("wide-range", sound) == []
    load = table(
        f"Buffer size (bytes),{BOARD}: Write EXT4 CPU Load (%)", '4k,"0.40 (min 0.10, max 1.00)"', title="MMC EXT4 FIO"
    )
    assert found("wide-range", load) == []


def test_a_clock_between_two_clocks_is_none() -> None:
    (finding,) = found("clock-average", clock("1310.00 (min 1250.00, max 1400.00)"))
    assert not missing_facts(finding.message, "1250 and 1400 MHz")
    assert found("clock-average", clock("1400.00 (min 1400.00, max 1400.00)")) == []
    assert found("clock-average", clock("1400.00")) == []


@pytest.mark.parametrize(("factor", "real"), [(800 / 1400, 800), (1000 / 1400, 1000)])
def test_rows_at_the_ratio_of_two_clocks_ran_at_another_clock(factor: float, real: int) -> None:
    older = [clock("1400.00"), nbench(1.0)]
    (finding,) = found("clock-ratio", clock("1400.00"), nbench(factor), older=older)
    assert not missing_facts(finding.message, f"{real} of 1400 MHz", f"ran at {real} MHz", "says 1400")
    assert len(finding.cells) == len(NBENCH)
    boards = (BOARD, "am62xx_lp_sk-fs")
    (finding,) = found("clock-ratio", clock("1400.00", "1400.00", boards=boards), nbench(factor, 1.0, boards=boards))
    assert "am62xx_lp_sk-fs's" in finding.message


def test_what_a_printed_clock_explains_is_no_fault() -> None:
    assert found("clock-ratio", clock("800.00"), nbench(800 / 1400), older=[clock("1400.00"), nbench(1.0)]) == []
    assert found("clock-ratio", clock("1400.00"), nbench(0.571, odd=1.2), older=[clock("1400.00"), nbench(1.0)]) == []
    assert found("clock-ratio", clock("1400.00"), nbench(0.98), older=[clock("1400.00"), nbench(1.0)]) == []
    boards = (BOARD, "am62pxx_sk-fs")
    other = found("clock-ratio", clock("1400.00", "1400.00", boards=boards), nbench(800 / 1400, 1.0, boards=boards))
    assert other == []


@pytest.mark.parametrize(
    ("old", "new", "factor", "alone"),
    [(400, 1250, 0.9, True), (400, 1250, 3.1, False), (1400, 1250, 0.89, False), (1400, 1250, 1.01, True)],
)
def test_a_clock_that_moved_without_its_rows_is_suspect(old: int, new: int, factor: float, alone: bool) -> None:
    findings = found("clock-alone", clock(f"{new}.00"), nbench(factor), older=[clock(f"{old}.00"), nbench(1.0)])
    assert [f.severity for f in findings] == ["suspect"] * alone
    assert all(not missing_facts(f.message, f"{factor:.2f} times", "clocks") for f in findings)


def test_a_clock_without_rows_that_follow_it_is_not_judged() -> None:
    assert found("clock-alone", clock("1250.00"), older=[clock("400.00")]) == []
    assert found("clock-alone", clock("1250.00"), nbench(1.0)) == []


def test_loads_that_never_fall_below_one_cores_share_are_suspect() -> None:
    def loads(lowest: float) -> list[TableText]:
        header = f"Buffer size (bytes),{BOARD}: Write EXT4 CPU Load (%),{BOARD}: Read EXT4 CPU Load (%)"
        rows = [f"{size},{lowest + n:.2f},{lowest + 2 * n:.2f}" for n, size in enumerate(("4k", "256k", "1m"))]
        return [table(header, *rows, title=title) for title in ("MMC EXT4 FIO 1G", "EMMC EXT4 FIO 1G")]

    (finding,) = found("load-floor", *loads(25.9))
    assert not missing_facts(finding.message, "below 25 %", "one of 4 cores")
    assert found("load-floor", *loads(2.0)) == []
    assert found("load-floor", *loads(33.0)) == []
    assert found("load-floor", loads(25.9)[0]) == []
    assert found("load-floor", *loads(12.6)) == [], "the device has four cores, and no eight"


# --- twice --------------------------------------------------------------------------------------------------------------


def test_a_table_and_a_row_that_are_printed_twice_are_named() -> None:
    (finding,) = found("duplicate-table", nbench(1.0), nbench(1.0))
    assert not missing_facts(finding.message, "header", "numbers of 'NBench'")
    assert found("duplicate-table", nbench(1.0), nbench(1.01)) == []
    header = f'Boot Configuration,"{BOARD}: Boot time in seconds: avg(min,max)"'
    rows = (
        "Linux boot time from MMCSD with default rootfs,16.00",
        "Linux boot time from mmcsd with default rootfs,16.00",
    )
    assert "in other letters" in texts(found("duplicate-table", table(header, *rows, title="Linux boot time")))


# --- mended rules -------------------------------------------------------------------------------------------------------


def test_a_rate_that_no_codec_has_is_only_noted() -> None:
    header = f"Sampling Rate (Hz),{BOARD}: Throughput (bits/sec)"
    (sure,) = found("audio-rate", table(header, "24000,705600", title="Audio Capture"))
    (noted,) = found("audio-rate", table(header, "24000,433376", title="Audio Capture"))
    assert (str(sure.severity), str(noted.severity)) == ("warning", "note")
    assert "no codec runs at that" in noted.message


def test_averages_are_not_taken_for_one_run_of_dd() -> None:
    header = f"File size (Mbytes),{BOARD}: Raw Read Throughput (Mbytes/sec)"
    assert len(found("quantised-dd", table(header, "50,172.41", title="OSPI Raw"))) == 1
    assert found("quantised-dd", table(header, "50,175.00", title="OSPI Raw")) == []
    assert found("quantised-dd", table(header, '50,"172.41 (min 166.67, max 178.57)"', title="OSPI Raw")) == []


def test_a_value_below_half_a_step_disproves_the_step() -> None:
    header = "Rail name,Rail voltage(V),Power (mW)"
    rows = ["soc_dvdd_1v8,1.80,1.04", "vdd_core,0.85,8.53"]
    (noted,) = found("sensor-resolution", table(header, *rows, title="Deep Sleep Power Performance"))
    assert str(noted.severity) == "note"
    assert (
        found(
            "sensor-resolution", table(header, *rows, "soc_dvdd_3v3,3.30,0.10", title="Deep Sleep Power Performance")
        )
        == []
    )


def test_one_cell_without_a_range_does_not_drop_the_chain_behind_it() -> None:
    cells = {
        "bcopy": "800.00",
        "bzero": "1000.00 (min 800.00, max 1200.00)",
        "fcp": "1100.00 (min 1000.00, max 1200.00)",
    }
    cells |= {"frd": "1500.00", "fwr": "1600.00 (min 1500.00, max 1700.00)"}
    rows = [f'bw_mem-{op}-1mb (MB/s),"{cell}"' for op, cell in cells.items()]
    recovered = {
        f.reading.params["operation"]: f.corrected
        for f in found("lmbench-pairing", perf("LMBench", *rows))
        if f.reading
    }
    assert recovered == {"bzero": 1200.0, "fcp": 1000.0, "fwr": 1700.0}


def test_a_fault_of_one_row_is_suspected_and_a_property_of_a_board_noted() -> None:
    boards = (BOARD, "am62xx_lp_sk-fs", "am62xxsip_sk-fs")
    rows = [f"bw_file_rd-io-{n}mb (MB/s),100.00,101.00,{10.0 if n == 1 else 99.0}" for n in (1, 2, 4, 8, 16)]
    (one,) = found("outlier-boards", perf("LMBench", *rows, boards=boards))
    assert str(one.severity) == "suspect"
    (alone,) = found("outlier-boards", perf("LMBench", rows[0], boards=boards))
    assert str(alone.severity) == "note"
    others = (BOARD, "am62pxx_sk-fs", "j721e-idk-gw")
    assert found("outlier-boards", perf("LMBench", *rows, boards=others)) == []


# --- another-unit -------------------------------------------------------------------------------------------------------


def test_a_number_in_another_unit_than_guides_have_is_not_compared() -> None:
    def bandwidth(unit: str) -> TableText:
        return perf("LMBench", f"bw_mem-bcopy-8mb ({unit}),788.49")

    (finding,) = found("another-unit", bandwidth("GB/s"))
    assert not missing_facts(finding.message, "'GB/s'", "MB/s", "1000 times")
    (of_time,) = found("another-unit", bandwidth("microsec"))
    assert "another quantity" in of_time.message
    for same in ("MB/s", "Mbytes/sec", "MBs", "Mb/s", "KiB per frame"):
        assert found("another-unit", bandwidth(same)) == [], same
