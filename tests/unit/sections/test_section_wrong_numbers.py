"""Outputs that have numbers which are none: of programs that failed, of parts of a job, of clocks and counters that lie."""

from __future__ import annotations

import random
import re
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
from attrs import define, evolve
from support.scripted_host import ScriptedHost, session
from support.section_bench import section_bench
from support.section_outputs import recorded

from lab import boards
from lab.benchmarks import (
    can,
    ethernet,
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
    usbdevice,
)
from lab.benchmarks.lab_site import LabSite
from lab.benchmarks.section import Bench, ParsedReading, Section, Validity
from lab.benchmarks.sections import ALL
from lab.errors import BoardTransientError, LabTransientError, TestTransientError
from lab.metrics import Flag
from lab.run.session import CommandResult
from lab.virtual.sim.faults.catalogue import read_plan

FIO = recorded("fio-3.33-write.txt")
SPACES = b"CPU %usr %nice %sys %iowait %irq %soft %steal %guest %gnice %idle\n"
MPSTAT = b"Average: " + SPACES + b"Average: all 1.00 0.00 1.00 1.00 0.00 0.00 0.00 0.00 0.00 97.00\n"
TUNNEL = b"""packets before {}
[  3]  0.0-60.0 sec  673 MBytes  94.1 Mbits/sec
[  4]  0.0-60.0 sec  673 MBytes  9.12 Mbits/sec
packets after 100 200
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@define
class LocalShell(ScriptedHost):
    """This host, in place of a board."""

    def run(self, command: str, timeout_s: float) -> CommandResult:
        ended = subprocess.run(  # noqa: S602 - the test's own command
            command,
            shell=True,
            timeout=timeout_s,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.clock.ns += round(timeout_s * 1e9)
        return CommandResult(ended.stdout.splitlines(), ended.returncode)


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
    refused(lambda: storage.fio(b"fio: terminating on signal 2\n" + FIO, {}), "failed on the way .*signal 2")
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
    refused(lambda: processor.DHRYSTONE(said), "expected 3 numbers, found 2")
    whetstones = f"C Converted Double Precision Whetstones: {value} MIPS\n".encode()
    refused(lambda: processor.WHETSTONE(whetstones), "expected 1 numbers, found 0")


@pytest.mark.parametrize(
    ("section", "command", "said"),
    [
        (can.SECTION, "env time -p cangen", "write: No buffer space available\nreal 2.53\nuser 0.00\nsys 0.00\n"),
        (
            next(section for section in storage.SECTIONS if section.name == "sd-ext4-dd"),
            "dd if=/dev/zero",
            "dd: fsync failed for '/mnt/boardlab/test': Input/output error\n"
            "104857600 bytes (105 MB, 100 MiB) copied, 1.5 s, 70 MB/s\n",
        ),
        (
            next(section for section in processor.DISTRIBUTION_SECTIONS if section.name == "stress-ng"),
            "stress-ng --cpu",
            "stress-ng: fail:  [12] cpu: verification failed\n"
            + recorded("stress-ng-0.15.06.txt").decode().replace(" 2.01 ", "10.01 "),
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
    with pytest.raises(BoardTransientError, match=r"board with status 1") as caught:
        next(section.measure(bench))
    assert caught.value.failure == "command_failed"


def test_a_program_of_the_tester_that_failed_is_no_number_either() -> None:
    bench = session(ScriptedHost(), ScriptedHost({"bw_pipe": ("Pipe bandwidth: 2384.03 MB/sec\n", 1)}))
    with pytest.raises(LabTransientError, match=r"tester with status 1"):
        bench.read(lmbench.bw_pipe, "bw_pipe", on_tester=True)


# --- that are no numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["THROUGHPUT", "LOCAL_CPU_UTIL", "REMOTE_BYTES_RECVD"])
@pytest.mark.parametrize("value", ["nan", "-nan", "inf"])
def test_netperf_that_says_nan_says_nothing(name: str, value: str) -> None:
    refused(lambda: ethernet.parse(stream(**{name: value}), "UDP STREAM"), f"{name}={value}")


def test_mpstats_columns_are_the_shares_of_one_whole() -> None:
    assert output.parse_mpstat(MPSTAT).percent == pytest.approx(2)
    refused(lambda: output.parse_mpstat(MPSTAT.replace(b"97.00", b"7.00")), "add up to 10 %")  # a digit was lost
    refused(lambda: output.parse_mpstat(MPSTAT.replace(b"97.00", b"nan")), "add up to nan %")
    nothing = MPSTAT.replace(b"1.00", b"0.00").replace(b"97.00", b"0.00")
    refused(lambda: output.parse_mpstat(nothing), "add up to 0 %")


def test_counters_that_began_anew_count_no_packets() -> None:
    for before in ("4294967000 4294960000", "200 101"):
        refused(
            lambda: ipsec.parse(TUNNEL.replace(b"{}", before.encode()) + MPSTAT, "aes128", "software"),  # noqa: B023 - at once
            "counters began anew",
        )
    found = ipsec.parse(TUNNEL.replace(b"{}", b"10 20") + MPSTAT, "aes128", "software")
    assert next(r for r in found if r.metric == "ipsec.packets").value == pytest.approx(270 / 60 / 1000)


def test_iperf3_loses_no_more_than_was_sent_and_no_fewer_than_none() -> None:
    said = "[  5]   0.00-10.00  sec  1.42 MBytes  1.19 Mbits/sec  0.012 ms  {}/1000 (0%)  receiver\n"
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
    refused(lambda: processor.COREMARK_PRO(marked), "found 0")


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
    (window,) = pcie.IPERF(recorded("iperf-2.1.8.txt"), window="8")
    assert (window.value, window.quantum) == (22.4, pytest.approx(0.1))
    packets = next(r for r in iperf3.udp(recorded("iperf3-3.12-udp.txt"), 128, {}) if r.metric.endswith("packets"))
    assert packets.quantum == pytest.approx(packets.value * 0.01 / 4.01), "its time is printed to 10 ms"
    tunnel = ipsec.parse(TUNNEL.replace(b"{}", b"10 20") + MPSTAT, "aes128", "software")
    assert tunnel[0].quantum == pytest.approx(0.11)


# --- of programs that ended early, or that the link or the medium cannot carry ------------------------------------------------

# The sections whose programs are given a duration, with a word of the program that ends early; and whether it can end with 0.
# Seen with iperf 2.1.8, iperf3 3.12, fio 3.33, stress-ng 0.15.06, cyclictest 2.4 and a SIGINT.
EARLY = {
    "iperf3": "iperf3 ",
    "iperf3-udp": "iperf3 ",
    "tcp": "netperf -H 192.168.0.1 -j -c -l 60 -t TCP_STREAM ",  # the first of two
    "udp-egress": "netperf ",
    "ipsec-software": "iperf ",
    "emmc-fio": "fio ",
    "sysbench": "sysbench ",
    "stress-ng": "stress-ng ",
    "cyclictest": "cyclictest ",
    "can": "cangen ",
}
SECTIONS = {section.name: section for section in ALL}


@pytest.mark.parametrize("name", EARLY)
def test_a_program_that_ended_early_has_no_number_and_once_it_goes_on_it_has(tmp_path: Path, name: str) -> None:
    """Whatever its exit status is."""
    chance, section = random.Random(name), SECTIONS[name]
    with section_bench(tmp_path) as bench:
        for status in (0, chance.choice([1, 2, 128, 130])):
            given = {"words": EARLY[name], "share": f"{chance.uniform(0.1, 0.9):.2f}", "status": str(status)}
            planned = read_plan({"fault": "program_interrupted", "text": "it was interrupted: a fatal error", **given})
            bench.lab.board.troubles_for = lambda cycle, planned=planned: [planned.fault(cycle)]
            bench.strategy.transition("off")
            wanted = (
                "a fatal error" if status else r"it ran for [\d.]+ of the requested \d+ s|sent \d+ of 20000 frames"
            )
            with pytest.raises((BoardTransientError, TestTransientError), match=wanted) as caught:
                list(next(iter(section.rows(bench.session(section)))).measure())
            assert caught.value.failure == ("command_failed" if status else "unreadable_output")
        bench.lab.board.troubles_for = lambda _cycle: []
        bench.strategy.transition("off")
        row = next(iter(section.rows(bench.session(section))))
        assert list(row.measure())


@pytest.mark.parametrize("seconds", [1, 2])
def test_real_iperf3_whose_server_ends_early_has_no_number_and_says_why(seconds: int) -> None:
    iperf3_program = str(shutil.which("iperf3"))  # ./run setup test installs it
    port = free_port()
    bench = session(LocalShell(), site=LabSite(seconds=6))
    server = [iperf3_program, "--server", "--one-off", "--forceflush", "--interval", "1"]
    with subprocess.Popen(
        [*server, "--bind", "127.0.0.1", "--port", str(port)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        while "Server listening" not in process.stdout.readline():
            assert process.poll() is None

        def end(lines: Iterable[str]) -> None:
            """End the server when it has counted so many seconds, in both directions."""
            for _ in islice((line for line in lines if re.search(r"\bsec .* .bits/sec", line)), 2 * seconds):
                pass
            process.send_signal(signal.SIGINT)

        threading.Thread(target=end, args=(process.stdout,), daemon=True).start()
        command = f"{iperf3_program} -c 127.0.0.1 -p {port} -t 6 --bidir -f m"
        says = "the server has terminated|unable to write to stream socket: (Connection reset|Broken pipe)"  # what it sees first
        with pytest.raises(BoardTransientError, match=f"status 1: .*({says})") as caught:
            bench.read(partial(iperf3.tcp, params={}), command, timeout_s=30, validity=Validity(6))
    assert caught.value.failure == "command_failed"


def test_iperf3s_summary_of_a_part_is_refused_without_its_status_too() -> None:
    part = (
        "[  5][TX-C]   0.00-{0}  sec   280 MBytes  1174 Mbits/sec    0             sender\n"
        "[  5][TX-C]   0.00-{0}  sec  0.00 Bytes  0.00 Mbits/sec                  receiver\n"
        "[  7][RX-C]   0.00-{0}  sec  0.00 Bytes  0.00 Mbits/sec                  sender\n"
        "[  7][RX-C]   0.00-{0}  sec   267 MBytes  1120 Mbits/sec                  receiver\n{1}\n"
    )
    for seconds, why, says in (
        ("2.00", "iperf3: error - the server has terminated", "it failed on the way"),
        ("59.10", "iperf3: interrupt - the client has terminated", "it failed on the way"),
        ("4.20", "", "expected 2 numbers, found 1"),
    ):
        refused(lambda: iperf3.tcp(part.format(seconds, why).encode(), {}), says)  # noqa: B023 - at once


@pytest.mark.parametrize("seed", range(8))
def test_glmark2_that_ended_before_its_last_scene_has_no_score(seed: int) -> None:
    """As after SIGINT, with status 0."""
    chance = random.Random(seed)
    scenes = [
        f"[{name}] <default>: FPS: {chance.randrange(5, 900)} FrameTime: 1.0 ms" for name in ["build", "texture"]
    ]
    scenes += [f"[{name}] <default>: Unsupported" for name in ("buffer", "terrain")]
    scenes += [f"[loop] fragment-steps=5:fragment-uniform={yes}:vertex-steps=5: FPS: 9" for yes in ("false", "true")]
    score = "=======\n            glmark2 Score: 87 \n=======\n"
    whole = "\n".join([*scenes, score]).encode()
    assert graphics.glmark2(whole, "glmark2-drm")[0].value == 87
    part = "\n".join([*scenes[: chance.randrange(1, len(scenes))], score]).encode()
    refused(lambda: graphics.glmark2(part, "glmark2-drm"), "before its last scene")


@pytest.mark.parametrize("seed", range(12))
def test_iperf3_whose_counter_overflowed_contradicts_its_own_rate(seed: int) -> None:
    chance = random.Random(seed)
    frame, seconds = chance.choice([*iperf3.FRAMES]), chance.uniform(4, 60)
    pps = chance.uniform(2_000, 80_000)
    rate = pps * iperf3.FRAMES[frame] * 8 / 1e6
    total = round(pps * seconds)
    line = "[  5]   0.00-{:.2f}  sec  6.83 GBytes  {:.3g} Mbits/sec  0.007 ms  {}/{} (0%)  receiver\n"
    good = iperf3.udp(line.format(seconds, rate, 0, total).encode(), frame, {})
    assert good[1].value == pytest.approx(pps / 1000, rel=0.01)
    wrong = chance.choice([2**31 - 1, 2**32 - total, total * 2, total // 2])
    refused(lambda: iperf3.udp(line.format(seconds, rate, 0, wrong).encode(), frame, {}), "a counter overflowed")


@pytest.mark.parametrize("seed", range(12))
def test_iperf3_whose_last_packets_did_not_come_counts_those_that_did(seed: int) -> None:
    """As iperf3 3.12 and 3.18 said it of a slow sender: "1.18 MBytes  9.32 Mbits/sec  1.483 ms  0/1810 (0%)  receiver"."""
    chance = random.Random(seed)
    frame, seconds = chance.choice([*iperf3.FRAMES]), chance.uniform(1, 60)
    sent = chance.randrange(1_000, 80_000) * round(seconds)
    came = round(sent * chance.uniform(0.3, 0.98))
    bits = iperf3.FRAMES[frame] * 8
    rate = [f"{count * bits / 1e6 / seconds:.2f}"[:4].rstrip(".") for count in (sent, came)]
    line = "[  5]   0.00-{:.2f}  sec  6.83 MBytes  {} Mbits/sec  0.007 ms  0/{} (0%)  {}\r\n"
    sender = line.format(seconds, rate[0], sent, "sender")
    receiver = line.format(seconds, rate[1], sent, "receiver")
    found = {r.metric.rpartition(".")[2]: r for r in iperf3.udp((sender + receiver).encode(), frame, {})}
    assert found["packets"].value == pytest.approx(came / seconds / 1000, abs=found["packets"].quantum)
    assert found["packets"].quantum < 0.02 * found["packets"].value
    assert found["throughput"].value == pytest.approx(found["packets"].value * frame * 8 / 1000)
    assert found["loss"].value == pytest.approx(100 - 100 * came / sent, abs=1)
    another = sender.replace(f"/{sent} ", f"/{sent + 1} ")
    if came < 0.9 * sent:
        refused(lambda: iperf3.udp((another + receiver).encode(), frame, {}), "a counter overflowed")


def over(section: str, share: float) -> tuple[str, str]:
    """A command of a section on an am62xx_sk, and an output that is `share` of what its link or medium can carry."""
    if section == "iperf3":
        rows = "".join(
            f"[  5][{way}-C]   0.00-60.00  sec  1 GBytes  {1000 * share:.0f} Mbits/sec  receiver\n"
            for way in ("TX", "RX")
        )
        return "iperf3 -c", rows
    if section == "udp-ingress-loss":
        sent = round(1e9 / 8 / 84 * 60 * share) * 18
        given = {"LOCAL_BYTES_SENT": str(sent), "REMOTE_BYTES_RECVD": str(sent), "ELAPSED_TIME": "60.00"}
        return "netperf", stream(**given).decode()
    if section == "sd-ext4-dd":
        return "dd if=", f"104857600 bytes (105 MB, 100 MiB) copied, {104857600 / 104e6 / share:.6f} s, 1 MB/s\n"
    if section == "sd-ext4":
        return "filesystem_tests", (
            f"|TRACE LOG||PERFDATA|bsize:1|iomode:write|throughput:{104 * share:.2f}MB/S|cpuload:1.00%||\n"
        )
    assert section == "can"
    return "cangen", f"real {20_000 / (1e6 / 111 * share):.2f}\nuser 0.00\nsys 0.00\n"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["iperf3", "udp-ingress-loss", "sd-ext4-dd", "sd-ext4", "can"])
def test_a_number_beyond_what_the_link_or_the_medium_carries_is_none(name: str, seed: int) -> None:
    chance = random.Random(f"{name} {seed}")
    site = LabSite(scratch={"sd": "/dev/mmcblk1p3"})

    def measured(share: float) -> ParsedReading:
        command, said = over(name, share)
        host, tester = ScriptedHost({command: said}), ScriptedHost({command: said})
        return next(iter(SECTIONS[name].measure(session(host, tester, site))))

    assert measured(chance.uniform(0.5, 1.0)).value
    refused(lambda: measured(chance.choice([1.1, 1.9, 20, 434.361])), "carries at most")


def test_a_link_that_qemu_draws_has_no_limit() -> None:
    command, said = over("iperf3", 3.5)
    bench = evolve(session(ScriptedHost({command: said}), ScriptedHost()), board=boards.load("qemu-virt"))
    assert [reading.value for reading in SECTIONS["iperf3"].measure(bench)] == [3500, 3500]


# --- exit statuses that say nothing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [1, 10, 42, 125])
def test_a_program_whose_status_is_arbitrary_has_its_number_unless_a_signal_ended_it(status: int) -> None:
    said = "CPU clock = 1400 MHz\nDhrystone DMIPS/MHz = 3.2\nDhrystones per Second: 7142857.0\n"
    host = ScriptedHost({"runDhrystone": [(said, status), (said, 128 + status % 64)]})
    assert len(list(SECTIONS["dhrystone"].measure(session(host)))) == 3
    with pytest.raises(BoardTransientError, match=r"board with status"):
        list(SECTIONS["dhrystone"].measure(session(host)))


def test_a_disk_that_is_smaller_than_what_dd_writes_is_full_and_nothing_else() -> None:
    said = (
        "dd: error writing '/mnt/boardlab-usb/150mb': {}\n16384000 bytes (16 MB, 16 MiB) copied, 0.40 s, 40.9 MB/s\n"
    )
    for why, status, good in (
        (usbdevice.FULL, 1, True),
        ("Input/output error", 1, False),
        (usbdevice.FULL, 137, False),
    ):
        tester = ScriptedHost({"oflag=direct": (said.format(why), status)})
        rows = SECTIONS["usb-device"].measure(session(ScriptedHost(), tester))
        if good:
            assert next(rows).value == pytest.approx(40.96)
        else:
            with pytest.raises(LabTransientError, match=f"{status}: .*{why}"):
                next(rows)


def test_the_message_has_the_programs_own_error_and_not_what_stands_below_it() -> None:
    said = "Doing sha1 for 3s\nCommand terminated by signal 9\n\tPage size (bytes): 4096\n\tExit status: 0\n"
    bench = session(ScriptedHost({"openssl": (said, 9)}))
    with pytest.raises(BoardTransientError, match=r"status 9: .*signal 9"):
        list(SECTIONS["openssl"].measure(bench))
