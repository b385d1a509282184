"""Outputs that have numbers which are none: of programs that failed, of parts of a job, of clocks and counters that lie."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.scripted_host import ScriptedHost, session
from support.section_outputs import recorded

from lab.benchmarks import (
    can,
    eembc,
    ethernet,
    extras,
    filecopy,
    graphics,
    iperf3,
    ipsec,
    lmbench,
    openssl,
    output,
    pcie,
    processor,
    realtime,
    storage,
)
from lab.benchmarks.section import Bench, ParsedReading, Section
from lab.benchmarks.site import LabSite
from lab.errors import BoardTransientError, LabTransientError, TestTransientError
from lab.metrics import Flag

FIO = recorded("fio-3.33-write.txt")
SPACES = b"CPU %usr %nice %sys %iowait %irq %soft %steal %guest %gnice %idle\n"
MPSTAT = b"Average: " + SPACES + b"Average: all 1.00 0.00 1.00 1.00 0.00 0.00 0.00 0.00 0.00 97.00\n"
TUNNEL = b"""packets before {}
[  3]  0.0-60.0 sec  673 MBytes  94.1 Mbits/sec
[  4]  0.0-60.0 sec  673 MBytes  9.12 Mbits/sec
packets after 100 200
"""


def refused(parse: Callable[[], object], says: str) -> None:
    with pytest.raises(TestTransientError, match=says) as caught:
        parse()
    assert caught.value.failure == "unreadable_output"


def stream(**values: str) -> bytes:
    """netperf's output of a UDP stream."""
    given = dict.fromkeys(ethernet.KEYS.split(","), "100") | values
    return "".join(
        ["MIGRATED UDP STREAM TEST from A\n", *(f"{key}={value}\n" for key, value in given.items())]
    ).encode()


def cyclictest(**lines: str) -> bytes:
    """One of two processors, some of whose lines are other ones."""
    bins = "".join(f"{us:06} {100 * (us == 5):06} {100 * (us == 6):06}\n" for us in range(400))
    said = {
        "Min Latencies": "00005 00006",
        "Avg Latencies": "00005 00006",
        "Max Latencies": "00005 00006",
        "Total": "000000100 000000100",
        "Histogram Overflows": "00000 00000",
    } | {name.replace("_", " "): text for name, text in lines.items()}
    return (bins + "".join(f"# {name}: {text}\n" for name, text in said.items())).encode()


# --- of a part, or of nothing ---------------------------------------------------------------------------------------


def test_a_flash_that_is_smaller_than_what_is_read_or_fails_has_no_rate() -> None:
    timed = b"real 0.09\nuser 0.00\nsys 0.09\n"
    said = b"0+1 records in\n0+1 records out\n16777216 bytes (17 MB, 16 MiB) copied, 0.08 s, 210 MB/s\n"
    refused(lambda: storage.ospi(said + timed), "did not read all of the 52428800 bytes")
    refused(lambda: storage.ospi(said[said.index(b"16") :] + timed), "did not read all of the 52428800 bytes")
    refused(lambda: storage.ospi(b"dd: /dev/mtd5: Input/output error\n0+0 records in\n" + timed), r"0\+0 records in")
    whole = said.replace(b"0+1", b"1+0").replace(b"16777216 bytes (17 MB, 16 MiB)", b"52428800 bytes (52 MB, 50 MiB)")
    assert storage.ospi(whole + timed)[0].value == pytest.approx(50 / 0.09)


def test_fio_that_failed_on_the_way_has_no_rate_and_two_rates_are_not_one() -> None:
    assert b"err= 0" in FIO
    refused(lambda: storage.fio(FIO.replace(b"err= 0", b"err= 5"), {}), "failed on the way .*err= 5")
    (rate,) = [line for line in FIO.splitlines(keepends=True) if line.lstrip().startswith(b"WRITE:")]
    refused(lambda: storage.fio(FIO + rate.replace(b"WRITE", b"READ"), {}), "rates of reading and of writing")


def test_a_stream_in_which_nothing_was_sent_lost_nothing_and_is_none() -> None:
    nothing = stream(LOCAL_BYTES_SENT="0", REMOTE_BYTES_RECVD="0")
    refused(lambda: ethernet.udp(nothing, 64, {"direction": "egress"}, loss=True), "sent nothing")


def test_stream_whose_arrays_are_wrong_measured_something_else() -> None:
    rows = "".join(f"{name}:  2000.0  0.08  0.08  0.08\n" for name in ("Copy", "Scale", "Add", "Triad")).encode()
    assert len(processor.stream(rows + b"Solution Validates: avg error less than 1.0e-13 on all three arrays\n")) == 4
    failed = rows + b"Failed Validation on array a[], AvgRelAbsErr > epsilon (1.000000e-13)\n"
    refused(lambda: processor.stream(failed), "arrays do not hold what they should")


@pytest.mark.parametrize("value", ["0.0", "0"])
def test_a_rate_of_nothing_a_second_is_none(value: str) -> None:
    said = f"CPU clock = 1400 MHz\nDhrystone DMIPS/MHz = 0.0\nDhrystones per Second: {value}\n".encode()
    refused(lambda: processor.dhrystone(said), "expected 3 numbers, found 2")
    whetstones = f"C Converted Double Precision Whetstones: {value} MIPS\n".encode()
    refused(lambda: processor.whetstone(whetstones), "expected 1 numbers, found 0")


@pytest.mark.parametrize(
    ("section", "command", "said"),
    [
        (can.SECTION, "env time -p cangen", "write: No buffer space available\nreal 0.02\nuser 0.00\nsys 0.00\n"),
        (
            next(section for section in filecopy.SECTIONS if section.name == "sd-ext4-dd"),
            "dd if=/dev/zero",
            "dd: fsync failed for '/mnt/boardlab/test': Input/output error\n"
            "104857600 bytes (105 MB, 100 MiB) copied, 0.5 s, 210 MB/s\n",
        ),
        (
            next(section for section in extras.SECTIONS if section.name == "stress-ng"),
            "stress-ng --cpu",
            "stress-ng: fail:  [12] cpu: verification failed\n" + recorded("stress-ng-0.15.06.txt").decode(),
        ),
        (openssl.SECTION, "env time -v openssl", recorded("openssl-3.0-aes-128-cbc.txt").decode()),
    ],
    ids=lambda value: value.name if isinstance(value, Section) else "",
)
def test_what_a_program_says_that_failed_is_no_number(section: Section, command: str, said: str) -> None:
    """Each of them says a number all the same, of the part that it did."""
    site = LabSite(scratch={"sd": "/dev/mmcblk1p3"})
    assert next(section.measure(session(ScriptedHost({command: said}), ScriptedHost(), site))).value
    bench: Bench = session(ScriptedHost({command: (said, 1)}), ScriptedHost(), site)
    with pytest.raises(BoardTransientError, match="failed on the board with status 1") as caught:
        next(section.measure(bench))
    assert caught.value.failure == "command_failed"


def test_a_program_of_the_tester_that_failed_is_no_number_either_where_its_status_counts() -> None:
    bench = session(ScriptedHost(), ScriptedHost({"bw_pipe": ("Pipe bandwidth: 2384.03 MB/sec\n", 1)}))
    assert len(bench.read(lmbench.bw_pipe, "bw_pipe", on_tester=True)) == 1
    with pytest.raises(LabTransientError, match="failed on the tester with status 1"):
        bench.read(lmbench.bw_pipe, "bw_pipe", on_tester=True, check=True)


# --- that are no numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["THROUGHPUT", "LOCAL_CPU_UTIL", "REMOTE_BYTES_RECVD"])
@pytest.mark.parametrize("value", ["nan", "-nan", "inf"])
def test_netperf_that_says_nan_says_nothing(name: str, value: str) -> None:
    refused(lambda: ethernet.parse(stream(**{name: value}), "UDP STREAM"), f"{name}={value}")


def test_mpstats_columns_are_the_shares_of_one_whole() -> None:
    assert output.parse(MPSTAT).percent == pytest.approx(2)
    refused(lambda: output.parse(MPSTAT.replace(b"97.00", b"7.00")), "add up to 10 %")  # a digit was lost
    refused(lambda: output.parse(MPSTAT.replace(b"97.00", b"nan")), "add up to nan %")
    nothing = MPSTAT.replace(b"1.00", b"0.00").replace(b"97.00", b"0.00")
    refused(lambda: output.parse(nothing), "add up to 0 %")


def test_counters_that_began_anew_count_no_packets() -> None:
    for before in ("4294967000 4294960000", "200 101"):
        refused(
            lambda: ipsec.parse(TUNNEL.replace(b"{}", before.encode()) + MPSTAT, "aes128", "software"),  # noqa: B023 - at once
            "counters began anew",
        )
    found = ipsec.parse(TUNNEL.replace(b"{}", b"10 20") + MPSTAT, "aes128", "software")
    assert next(r for r in found if r.metric == "ipsec.packets").value == pytest.approx(270 / 60 / 1000)


def test_iperf3_loses_no_more_than_was_sent_and_no_fewer_than_none() -> None:
    said = "[  5]   0.00-10.00  sec  1.10 GBytes  941 Mbits/sec  0.012 ms  {}/1000 (0%)  receiver\n"
    refused(lambda: iperf3.udp(said.format(1200).encode(), 1518, {}), "more packets were lost than were sent")
    twice = {r.metric: r.value for r in iperf3.udp(said.format(-12).encode(), 1518, {})}
    assert twice["ethernet.iperf3.udp.loss"] == 0
    assert twice["ethernet.iperf3.udp.packets"] == pytest.approx(0.1012)


def test_a_score_whose_digits_were_torn_apart_is_no_smaller_score() -> None:
    torn = b"glmark2 Score: 21eth0: link becomes ready\n7\n"  # a kernel without times
    refused(lambda: graphics.glmark2(torn, "glmark2-drm"), "found 0")
    with_caller = b"glmark2 Score: 21<6>[   12.345678][  T123] eth0: link becomes ready\r\n7\r\n"
    assert graphics.glmark2(with_caller, "glmark2-drm")[0].value == 217
    marked = b"CoreMark-PRO 1234.5[eth0] up\n6\n"
    refused(lambda: eembc.coremark_pro(marked), "found 0")


# --- cyclictest -----------------------------------------------------------------------------------------------------------


def values(readings: list[ParsedReading], cpu: str) -> dict[str, ParsedReading]:
    return {r.params["statistic"]: r for r in readings if r.params["cpu"] == cpu}


def test_a_quantile_behind_the_histograms_end_may_be_anything_up_to_the_maximum() -> None:
    found = realtime.parse(cyclictest(Max_Latencies="05005 00006", Histogram_Overflows="00090 00000"))
    first, second = values(found, "0"), values(found, "1")
    assert first["p50"].value == 5
    assert first["p50"].flags == frozenset()
    for name in ("p99", "p99.99"):
        assert first[name].value <= 5005 <= first[name].value + first[name].quantum / 2
        assert first[name].flags == {Flag.UNCERTAIN}
        assert (second[name].value, second[name].quantum, second[name].flags) == (6, 1, frozenset())


@pytest.mark.parametrize("name", ["Min_Latencies", "Avg_Latencies", "Max_Latencies", "Histogram_Overflows"])
def test_a_line_of_cyclictest_that_lost_a_processor_is_an_error(name: str) -> None:
    refused(lambda: realtime.parse(cyclictest(**{name: "00005"})), "different numbers of processors")


def test_a_thread_that_never_woke_up_has_no_latency() -> None:
    text = cyclictest(Total="000000100 000000000").replace(b"000006 000000 000100", b"000006 000000 000000")
    refused(lambda: realtime.parse(text), "processor 1 never woke up")


def test_a_line_of_cyclictest_with_a_stray_character_is_read_in_no_time() -> None:
    """Its numbers can be told apart in one way only; in all ways it would take hours."""
    refused(lambda: realtime.parse(cyclictest(Total=" ".join(["000300000"] * 8) + "x")), "the line 'Total'")


# --- how sure they are ----------------------------------------------------------------------------------------------------


def test_a_rate_is_as_sure_as_the_last_digit_that_was_printed() -> None:
    said = [storage.fio(text, {})[0] for text in (FIO, FIO.replace(b"(1534MB/s)", b"(1.53GB/s)"))]
    assert [(rate.value, rate.quantum) for rate in said] == [(1534, 1), (1530, pytest.approx(10))]
    bidir = iperf3.tcp(recorded("iperf3-3.12-bidir.txt"), {})
    assert {r.quantum for r in bidir} == {1}
    (window,) = pcie.parse(recorded("iperf-2.1.8.txt"), "8")
    assert (window.value, window.quantum) == (22.4, pytest.approx(0.1))
    packets = next(r for r in iperf3.udp(recorded("iperf3-3.12-udp.txt"), 128, {}) if r.metric.endswith("packets"))
    assert packets.quantum == pytest.approx(packets.value * 0.01 / 4.01), "its time is printed to 10 ms"
    tunnel = ipsec.parse(TUNNEL.replace(b"{}", b"10 20") + MPSTAT, "aes128", "software")
    assert tunnel[0].quantum == pytest.approx(0.11)
