"""Comparing releases: the verdicts that the figures of AM62x 09.02 and 11.01 deserve, and the judges one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest
from support.facts import missing_facts
from support.guide_family import GuideText, TableText, table, write_rst

from lab.guide import measurements
from lab.guide.compare import causes
from lab.guide.compare import comparison as compare
from lab.guide.compare.comparison import Change, Comparison
from lab.guide.measurements import MeasuredGuide
from lab.guide.model import Guide
from lab.guide.read import assemble, rst
from lab.judge.compare import Verdict

SK, LP, SIP = "am62xx_sk-fs", "am62xx_lp_sk-fs", "am62xxsip_sk-fs"
UDP, IPSEC, FIO, RAIL = "ethernet.udp.throughput", "ipsec.throughput", "storage.fio.throughput", "power.rail"
BROKEN, DEFINITION, CONDITIONS = {Verdict.BROKEN_RUN}, {Verdict.DEFINITION_CHANGED}, {Verdict.CONDITIONS_CHANGED}
RESOLUTION, REGRESSION, IMPROVEMENT = {Verdict.BELOW_RESOLUTION}, {Verdict.REGRESSION}, {Verdict.IMPROVEMENT}
SUSPECT = {Verdict.SUSPECT}

# The largest changes between the two guides as printed, and what the analysis of each says.
TOP = [
    (SK, UDP, 955.58, 2.43, BROKEN),
    (SK, UDP, 947.27, 3.90, BROKEN),
    (SK, IPSEC, 267.40, 1.20, BROKEN),
    (SK, IPSEC, 276.90, 1.30, BROKEN),
    (SIP, IPSEC, 274.50, 2.90, BROKEN),
    (LP, UDP, 951.32, 13.16, BROKEN),
    (SIP, IPSEC, 270.00, 4.20, BROKEN),
    (LP, UDP, 951.32, 38.86, BROKEN),
    (SIP, UDP, 935.75, 61.44, BROKEN),
    (SK, UDP, 932.64, 61.44, BROKEN),
    (SK, FIO, 51.50, 5.32, SUSPECT),  # by outlier-boards: the board's other rows are like the others'
    (LP, UDP, 482.73, 60.62, BROKEN),
    (LP, UDP, 124.32, 15.77, BROKEN),
    (LP, UDP, 53.13, 6.76, BROKEN),
    (SK, RAIL, 4.80, 0.77, DEFINITION),  # and within the sensor's resolution
    (SIP, UDP, 89.88, 15.16, BROKEN),
    (LP, UDP, 955.66, 183.19, DEFINITION),  # and the packets are suspect
    (LP, "ethernet.tcp.throughput", 1669.02, 326.74, SUSPECT),
    (SK, RAIL, 4.00, 1.04, RESOLUTION),
    (SK, UDP, 27.35, 97.99, DEFINITION),
    (None, "glmark2.score", 219.00, 66.00, {Verdict.NOT_COMPARABLE}),
    (LP, FIO, 13.40, 42.60, CONDITIONS),
    (SIP, UDP, 29.74, 92.95, DEFINITION),
    (SK, "lmbench.lat_ctx", 3.56, 10.58, REGRESSION),
    (LP, FIO, 13.30, 38.60, CONDITIONS),
    (LP, UDP, 25.40, 71.78, DEFINITION),
    (SIP, "lmbench.bw_mem", 642.85, 1753.81, IMPROVEMENT),
    (LP, "lmbench.latency", 1.61, 4.37, REGRESSION),
    (SIP, "lmbench.latency", 1.19, 3.22, REGRESSION),
    (SIP, "lmbench.lat_ctx", 4.54, 12.25, REGRESSION),
]


@pytest.mark.parametrize(("board", "metric", "old", "new", "verdicts"), TOP)
def test_the_thirty_largest_changes_get_the_verdict_that_was_argued(
    comparison: Comparison, board: str | None, metric: str, old: float, new: float, verdicts: set[Verdict]
) -> None:
    rows = [c for c in comparison.changes if (c.board, c.metric, c.old, c.new) == (board, metric, old, new)]
    assert [row.verdict for row in rows] == list(verdicts)
    assert rows[0].ratio == pytest.approx(new / old)
    assert rows[0].reason


def test_no_result_of_a_broken_udp_or_ipsec_run_is_called_a_regression(comparison: Comparison) -> None:
    """Neither its packets nor its CPU load are."""
    moved = {Verdict.REGRESSION, Verdict.IMPROVEMENT}
    for c in comparison.changes:
        if c.metric.startswith("ipsec.") and c.board in {SK, SIP} and c.params["algorithm"] in {"aes128", "aes192"}:
            assert c.verdict is Verdict.BROKEN_RUN
        if c.metric.startswith("ethernet.udp.") and (c.params["direction"], c.params["loss"]) == ("ingress", "0 loss"):
            assert c.verdict not in moved
    assert min(c.ratio for c in comparison.changes if c.verdict is Verdict.REGRESSION and c.ratio) > 0.1


def test_packets_say_what_the_changed_definition_hides(comparison: Comparison) -> None:
    packets = [
        c for c in comparison.changes if c.metric == "ethernet.udp.packets" and c.params["direction"] == "egress"
    ]
    assert len(packets) == 15
    suspects = [c for c in packets if c.verdict is Verdict.SUSPECT]
    in_two_frames = [c for c in packets if c.verdict is Verdict.DEFINITION_CHANGED]
    assert {c.verdict for c in packets} == {Verdict.REGRESSION, Verdict.SUSPECT, Verdict.DEFINITION_CHANGED}
    assert {c.params["frame_bytes"] for c in in_two_frames} == {"1518"}
    assert {(c.board, c.params["frame_bytes"]) for c in suspects} == {(LP, "1024"), (SK, "64")}
    assert all("(udp-search-stuck)" in c.reason for c in suspects)
    (mbit,) = [c for c in comparison.changes if (c.metric, c.old, c.new) == (UDP, 16.96, 40.95)]
    assert not missing_facts(mbit.reason, "117.8 to 80.0 thousand", "0.68 times")


def test_every_row_of_another_sd_card_says_so(comparison: Comparison) -> None:
    rows = [
        c for c in comparison.changes if c.params.get("medium") == "sd" and c.metric.startswith(("storage", "uboot"))
    ]
    assert len(rows) > 30
    assert {c.verdict for c in rows} == {Verdict.CONDITIONS_CHANGED}
    assert all("SanDisk 8GB" in c.reason and "SDSQQVR-032G" in c.reason for c in rows)


def test_the_slower_clock_of_one_board_explains_its_processor_rows(comparison: Comparison) -> None:
    rows = [
        c
        for c in comparison.changes
        if c.board == SIP and c.metric in {"lmbench.lat_ops", "nbench.rate", "linpack.rate", "cpu.clock"}
    ]
    explained = [c for c in rows if c.verdict is Verdict.CONDITIONS_CHANGED]
    assert len(explained) >= 24
    assert all("1250 MHz instead of 1400" in c.reason for c in explained)
    (dhrystone,) = [c for c in comparison.changes if c.board == SIP and c.metric == "dhrystone.rate"]
    assert dhrystone.verdict is Verdict.CONDITIONS_CHANGED
    others = [c for c in comparison.changes if c.board == SK and c.metric == "lmbench.lat_ops"]
    assert {c.verdict for c in others} == {Verdict.NOISE, Verdict.BELOW_RESOLUTION}


def test_paired_cells_are_compared_by_their_own_values(comparison: Comparison) -> None:
    (rd,) = [
        c
        for c in comparison.changes
        if c.board == SK and c.params.get("operation") == "rd" and c.params["size"] == "1mb"
    ]
    assert rd.new == 1303.54
    assert not missing_facts(rd.printed[1], "976.13", "min 648.72", "max 1303.54")
    (fwr,) = [
        c
        for c in comparison.changes
        if c.board == LP and c.params.get("operation") == "fwr" and c.params["size"] == "2mb"
    ]
    assert (fwr.old, fwr.new, fwr.verdict) == (567.13, 1842.98, Verdict.IMPROVEMENT)


def test_quantised_and_edge_numbers_do_not_move(comparison: Comparison) -> None:
    (whetstone,) = [c for c in comparison.changes if c.board == SK and c.metric == "whetstone.rate"]
    assert (whetstone.old, whetstone.new, whetstone.verdict) == (10000.0, 5000.0, Verdict.BELOW_RESOLUTION)
    edges = [c for c in comparison.changes if c.metric == "lmbench.lat_mem_rd" and c.params["size"] == "31k"]
    assert {c.verdict for c in edges} <= {Verdict.NOISE, Verdict.CONDITIONS_CHANGED}
    assert any("edge of a 32 KiB" in c.reason for c in edges)


def test_boot_became_faster_and_the_ranges_say_so(comparison: Comparison) -> None:
    (boot,) = [c for c in comparison.changes if c.metric == "boot.time"]
    assert (boot.old, boot.new, boot.verdict) == (18.06, 16.24, Verdict.IMPROVEMENT)


def test_a_sleep_mode_that_is_entered_another_way_is_another_definition(comparison: Comparison) -> None:
    (total,) = [c for c in comparison.changes if c.metric == "power.total" and c.params["mode"] == "mcuonly"]
    assert total.verdict is Verdict.DEFINITION_CHANGED
    assert total.board == SK  # the newer table names no board, the older one names one


def test_what_matters_comes_first(comparison: Comparison) -> None:
    order = list(Verdict)
    weights = [(order.index(c.verdict), -abs(math.log(c.ratio)) if c.ratio else -math.inf) for c in comparison.changes]
    assert weights == sorted(weights)


def test_one_board_alone_leaves_the_others_out(sheets: Mapping[str, MeasuredGuide], comparison: Comparison) -> None:
    one = compare.compare(sheets["am62x-09.02.rst"], sheets["am62x-11.01.rst"], SK)
    assert {c.board for c in one.changes} == {SK, None}
    assert len([c for c in one.changes if c.board == SK]) == len([c for c in comparison.changes if c.board == SK])


@pytest.mark.parametrize("name", ["am62x-11.01.rst", "am437x.rst", "am65x-09.03-rt.txt"])
def test_a_guide_did_not_move_against_itself(sheets: Mapping[str, MeasuredGuide], name: str) -> None:
    found = compare.compare(sheets[name], sheets[name])
    assert {c.verdict for c in found.changes} <= {Verdict.NOISE, Verdict.BROKEN_RUN, Verdict.NOT_COMPARABLE}
    assert (found.only_old, found.only_new) == ((), ())


def test_guides_of_different_boards_have_nothing_in_common(sheets: Mapping[str, MeasuredGuide]) -> None:
    found = compare.compare(sheets["am437x.rst"], sheets["am62ax-09.02.rst"])
    assert found.changes == ()
    assert found.only_old
    assert found.only_new


# --- judges -------------------------------------------------------------------------------------------------------------


def sheet_of(release: str, tables: Sequence[TableText], conditions: Sequence[tuple[int, str]] = ()) -> MeasuredGuide:
    text = write_rst(GuideText(f"Linux {release} Performance Guide", tables=list(tables), conditions=list(conditions)))
    document = rst.read("g.rst", text)
    guide = Guide(
        "g.rst", "rst", document.title, release, (), assemble.tables(document.tables), tuple(document.conditions), ()
    )
    return measurements.of_guide(guide)


def one(old: TableText, new: TableText, releases: tuple[str, str] = ("10.00", "11.00"), metric: str = "") -> Change:
    changes = compare.compare(sheet_of(releases[0], [old]), sheet_of(releases[1], [new])).changes
    (change,) = [c for c in changes if not metric or c.metric == metric]
    return change


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        ((363.0, 283.0), Verdict.CONDITIONS_CHANGED),  # 1.18 times the boards with its clock, and now as they are
        ((320.0, 230.0), Verdict.REGRESSION),  # now slower than they are
        ((310.0, 280.0), Verdict.CONDITIONS_CHANGED),  # by the clock alone
    ],
)
def test_a_board_that_became_like_those_with_its_new_clock_is_no_slower_release(
    numbers: tuple[float, float], verdict: Verdict
) -> None:
    boards = ("am62xx_lp_sk-fs", "am62xx_sk-fs", "am62xxsip_sk-fs")

    def guide(release: str, number: float, mhz: int) -> MeasuredGuide:
        header = ",".join(["Benchmarks", *(f"{board}: perf" for board in boards)])
        rows = (f"cpu_clock (MHz),1250,1400,{mhz}", f"dhrystone (),100,112,{mhz * 0.08}")
        multibench = f"4m-check (workloads/),281,306,{number}"
        return sheet_of(
            release, [table(header, *rows, title="Dhrystone"), table(header, multibench, title="Multibench")]
        )

    changes = compare.compare(guide("10.00", numbers[0], 1400), guide("11.00", numbers[1], 1250)).changes
    (change,) = [c for c in changes if (c.metric, c.board) == ("multibench.rate", boards[2])]
    assert change.verdict is verdict


def lmbench(row: str) -> TableText:
    return table("Benchmarks,a1-fs: perf", row, title="LMBench Benchmarks")


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("lat_pipe (us),20.00", "lat_pipe (us),30.00", Verdict.REGRESSION),
        ("lat_pipe (us),30.00", "lat_pipe (us),20.00", Verdict.IMPROVEMENT),
        ("bw_pipe (MB/s),500.00", "bw_pipe (MB/s),300.00", Verdict.REGRESSION),
        ("bw_pipe (MB/s),300.00", "bw_pipe (MB/s),500.00", Verdict.IMPROVEMENT),
        ("bw_pipe (MB/s),300.00", "bw_pipe (MB/s),310.00", Verdict.NOISE),
        ("bw_pipe (MB/s),300.00", "bw_pipe (mb/s),500.00", Verdict.IMPROVEMENT),
        ("lat_proc-proccall (us),0.01", "lat_proc-proccall (us),0.02", Verdict.BELOW_RESOLUTION),
        ("lat_ctx-4-128k (us),0.00", "lat_ctx-4-128k (us),9.00", Verdict.REGRESSION),
    ],
)
def test_a_change_has_a_direction(old: str, new: str, verdict: Verdict) -> None:
    assert one(lmbench(old), lmbench(new)).verdict is verdict


def test_ranges_that_overlap_say_that_nothing_moved() -> None:
    def boot(cell: str) -> TableText:
        return TableText(
            [
                '"Boot Configuration","a1-fs: Boot time in seconds: avg(min,max)"',
                f'"Linux boot time from SD","{cell}"',
            ],
            "Linux boot time MMCSD",
        )

    assert one(boot("16.00 (min 15.00, max 19.00)"), boot("18.00 (min 17.00, max 20.00)")).verdict is Verdict.NOISE
    assert (
        one(boot("16.00 (min 15.90, max 16.10)"), boot("18.00 (min 17.90, max 18.10)")).verdict is Verdict.REGRESSION
    )


def test_renamed_rows_and_titles_of_one_thing_are_paired() -> None:
    old = table(
        "Boot Configuration,a1-fs: boot time (sec)",
        "Kernel boot time test when bootloader; kernel and sdk-rootfs are in mmc-sd,18.06",
        title="Boot time MMC/SD",
    )
    new = table(
        "Boot Configuration,a1-fs: Boot time in seconds: avg(min;max)",
        "Linux boot time from SD with default rootfs (20 boot cycles),16.24",
        title="Linux boot time MMCSD",
    )
    assert one(old, new).metric == "boot.time"
    shell = table(
        "Boot Configuration,a1-fs: boot time (sec)",
        "Kernel boot time test when init is /bin/sh and kernel are in mmc-sd,3.45",
        title="Boot time MMC/SD",
    )
    assert compare.compare(sheet_of("9.0", [shell]), sheet_of("11.0", [new])).changes == ()


def test_a_load_of_other_work_is_not_comparable() -> None:
    header = "Command Used,a1-fs: THROUGHPUT (Mbits/sec),a1-fs: CPU Load % (LOCAL_CPU_UTIL)"
    title = "CPSW2g TCP Bidirectional Throughput"
    fell = one(
        table(header, "netperf,1669.02,52.26", title=title),
        table(header, "netperf,326.74,11.98", title=title),
        metric="ethernet.tcp.cpu_load",
    )
    assert fell.verdict is Verdict.NOT_COMPARABLE
    same = one(
        table(header, "netperf,1669.02,52.26", title=title),
        table(header, "netperf,1669.02,31.98", title=title),
        metric="ethernet.tcp.cpu_load",
    )
    assert same.verdict is Verdict.IMPROVEMENT


@pytest.mark.parametrize("was_busy", [False, True])
def test_loads_with_a_busy_core_are_under_other_conditions(was_busy: bool) -> None:
    def loads(busy: float) -> list[TableText]:
        header = "Buffer size (bytes),am62xx_sk-fs: Write EXT4 CPU Load (%),am62xx_sk-fs: Read EXT4 CPU Load (%)"
        rows = [f"{size},{busy + 1 + n},{busy + 3 + n}" for n, size in enumerate(("4k", "256k", "1m"))]
        return [table(header, *rows, title=title) for title in ("MMC EXT4 FIO 1G", "EMMC EXT4 FIO 1G")]

    found = compare.compare(sheet_of("9.0", loads(25 if was_busy else 0)), sheet_of("11.0", loads(25)))
    assert len(found.changes) == 12
    if was_busy:
        assert {c.verdict for c in found.changes} == {Verdict.NOISE}
        return
    assert {c.verdict for c in found.changes} == {Verdict.CONDITIONS_CHANGED}
    (cause,) = [c for c in causes.find_causes(found) if c.kind is causes.Kind.CONDITIONS]
    assert not missing_facts(cause.why, "no core", "9.0", "one of 4 cores", "11.0")


def test_a_card_that_one_guide_does_not_name_is_no_change_of_conditions() -> None:
    rows = [
        table(
            "Buffer size (bytes),a1-fs: Write EXT4 Throughput (Mbytes/sec)",
            f"1m,{value}",
            title="MMC EXT4 FIO 1G",
            chapter=["MMCSD"],
        )
        for value in ("13.40", "42.60")
    ]
    named = compare.compare(sheet_of("9.02", rows[:1], [(1, "Card A")]), sheet_of("11.01", rows[1:], [(1, "Card B")]))
    silent = compare.compare(sheet_of("9.02", rows[:1]), sheet_of("11.01", rows[1:], [(1, "Card B")]))
    assert named.changes[0].verdict is Verdict.CONDITIONS_CHANGED
    assert silent.changes[0].verdict is Verdict.IMPROVEMENT


def test_a_row_that_boardlab_does_not_know_is_kept_and_not_judged() -> None:
    header = "Test,a1-fs: Wobble (turns/s)"
    moved = one(table(header, "left,10.00", title="Novelty"), table(header, "left,20.00", title="Novelty"))
    assert (moved.verdict, moved.old, moved.new) == (Verdict.NOT_COMPARABLE, 10.0, 20.0)
    assert (
        one(table(header, "left,10.00", title="Novelty"), table(header, "left,10.10", title="Novelty")).verdict
        is Verdict.NOISE
    )


def test_a_short_row_is_not_comparable() -> None:
    header = "Benchmark,a1-fs: Score,b2-fs: Score"
    old, new = (
        table(header, "Glmark2-DRM,50.00,60.00", f"Glmark2-Wayland,{score}", title="Glmark2")
        for score in ("200.00", "100.00")
    )
    changes = [c for c in compare.compare(sheet_of("9", [old]), sheet_of("11", [new])).changes if c.board is None]
    assert [(c.old, c.new, c.verdict) for c in changes] == [(200.0, 100.0, Verdict.NOT_COMPARABLE)]


def test_a_new_broken_run_of_an_old_good_one_is_said_to_be_the_new_ones() -> None:
    header = "Algorithm,a1-fs: Throughput (Mbps),a1-fs: Packets/Sec,a1-fs: CPU Load"
    good = table(header, "aes128,270.00,23.00,48.00", title="IPSec Software Performance")
    bad = table(header, "aes128,1.20,0.00,51.00", title="IPSec Software Performance")
    change = one(good, bad, metric=IPSEC)
    assert not missing_facts(change.reason, "11.00: 1.20 Mbit/s", "51 % CPU load")
    assert one(bad, good, metric=IPSEC).reason.startswith("10.00: 1.20 Mbit/s")
