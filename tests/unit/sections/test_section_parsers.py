"""What each program's output says, and that a damaged output says nothing rather than something else."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import section_outputs
from support.section_outputs import Output, recorded

from lab.benchmarks import (
    audio,
    ethernet,
    graphics,
    iperf3,
    lmbench,
    openssl,
    output,
    pcie,
    processor,
    realtime,
    storage,
)
from lab.benchmarks import uboottransfer as uboot
from lab.benchmarks.output import lines
from lab.benchmarks.section import ParsedReading
from lab.benchmarks.sections import ALL
from lab.errors import TestTransientError

EVERY = section_outputs.every()
PRINTK = b"[   12.345678] am65-cpsw-nuss 8000000.ethernet eth0: Link is Up - 1Gbps/Full\n"
CHANGES = ("printk between", "printk within", "carriage returns", "twice")


def by_key(readings: list[ParsedReading]) -> dict[object, float]:
    return {reading.key: reading.value for reading in readings}


def read_or_error(output: Output, text: bytes) -> dict[object, float]:
    """What is read; nothing where it is an error of the right class."""
    try:
        return by_key(output.parser(text))
    except TestTransientError as error:
        if error.failure != "unreadable_output":
            raise
        return {}


def value(readings: list[ParsedReading], metric: str, **params: str) -> float:
    (found,) = [r.value for r in readings if r.metric == metric and r.params.items() >= params.items()]
    return found


outputs = pytest.mark.parametrize("output", EVERY, ids=lambda output: output.name)


# --- damage -------------------------------------------------------------------------------------------------------------


@outputs
def test_a_clean_output_is_read_and_each_number_knows_its_bytes(output: Output) -> None:
    readings = output.parser(output.text)
    assert readings
    for reading in readings:
        assert 0 <= reading.start < reading.end <= len(output.text)


@given(st.sampled_from(EVERY), st.lists(st.tuples(st.sampled_from(CHANGES), st.floats(0, 1)), max_size=6))
def test_kernel_lines_carriage_returns_and_repeated_lines_change_no_number(
    output: Output, changes: list[tuple[str, float]]
) -> None:
    text = output.text
    for change, where in sorted(changes, key=lambda pair: pair[0] != "twice"):  # whole lines, not halves
        text = changed(text, change, where)
    assert by_key(output.parser(text)) == by_key(output.parser(output.text))


@given(st.sampled_from(EVERY), st.floats(0, 1))
def test_an_output_that_ends_early_gives_all_its_numbers_or_an_error_and_never_another_number(
    output: Output, where: float
) -> None:
    cut = output.text[: round(where * (len(output.text) - 1))]
    assert read_or_error(output, cut).items() <= by_key(output.parser(output.text)).items()


@given(st.sampled_from(EVERY), st.binary(max_size=200))
def test_an_output_without_a_number_is_an_error_that_shows_the_first_line_that_is_not_understood(
    output: Output, noise: bytes
) -> None:
    text = b"sh: 1: program: not found\n" + bytes(b for b in noise if b not in b"0123456789=:") + b"\n"
    with pytest.raises(TestTransientError, match=r"not found|whole line|not compiled") as caught:
        output.parser(text)
    assert caught.value.failure == "unreadable_output"


def changed(text: bytes, change: str, where: float) -> bytes:
    """The same output after something happened to it on its way, at a share of its length."""
    if change == "carriage returns":
        return text.replace(b"\r", b"").replace(b"\n", b"\r\n")
    at = round(where * (len(text) - 1))
    start = text.rfind(b"\n", 0, at) + 1
    end = text.find(b"\n", at) + 1 or len(text)
    if change == "twice":
        return text[:end] + text[start:end] + text[end:]
    place = start if change == "printk between" else at
    if b"[" in text[start:place]:  # perhaps inside a kernel line, which would not be one any more
        place = start
    return text[:place] + PRINTK + text[place:]


def test_a_line_that_contradicts_an_earlier_one_is_an_error() -> None:
    text = b"AF_UNIX sock stream bandwidth: 4046.94 MB/sec\nAF_UNIX sock stream bandwidth: 46.94 MB/sec\n"
    with pytest.raises(TestTransientError, match=r"bw_unix.*4046.94.*46.94"):
        lmbench.bw_unix(text)


def test_a_kernel_line_inside_another_one_is_taken_out_and_the_bytes_cover_both_halves() -> None:
    text = b"Pipe bandwi[    1.000000] usb 1-1: new device\ndth: 2384.03 MB/sec\n"
    (line,) = lines(text)
    assert line.text == "Pipe bandwidth: 2384.03 MB/sec"
    assert text[line.start : line.end] == text


# --- what the numbers are -----------------------------------------------------------------------------------------------


def test_lmbench_reads_every_program_of_the_vendors_recorded_log() -> None:
    blocks = dict(section_outputs.lmbench_blocks())
    assert len(blocks) == len(list(lmbench.programs()))
    found = [reading for command, text in blocks.items() for reading in lmbench.reader(command)(text)]
    assert len({reading.key for reading in found}) == len(found) == 102
    assert value(found, "lmbench.bw_mem", operation="rd", size="1mb") == 55485.99
    assert value(found, "lmbench.bw_mem", operation="bcopy", size="16mb") == 14536.20
    assert value(found, "lmbench.lat_mem_rd", size="50") == 1.935
    assert value(found, "lmbench.lat_mem_rd", size="1000k") == 8.034
    assert value(found, "lmbench.lat_ops", type="int64", operation="add") == 0.25
    assert value(found, "lmbench.lat_fs", size="10k") == 443
    assert value(found, "lmbench.lat_mmap", size="1m") == 46
    assert value(found, "lmbench.lat_proc", kind="proccall") == 0.0039
    assert value(found, "lmbench.lat_syscall", call="open") == 2.1954
    assert value(found, "lmbench.latency", of="select") == 20.6383


def test_openssl_reads_the_block_sizes_of_the_header_and_the_share_of_a_core() -> None:
    found = openssl.parse(recorded("openssl-3.0-aes-128-cbc.txt"), "aes-128-cbc")
    assert value(found, "openssl.throughput", buffer="16") == 557734.80
    assert value(found, "openssl.throughput", buffer="16384") == 586285.06
    assert value(found, "openssl.cpu_load") == 43


def test_openssl_without_elapsed_on_an_accelerator_prints_inf_and_that_is_an_error() -> None:
    text = recorded("openssl-3.0-aes-128-cbc.txt").replace(b"557734.80k", b"      infk")
    with pytest.raises(TestTransientError, match=r"7 numbers, found 1"):
        openssl.parse(text, "aes-128-cbc")


def test_fio_is_read_in_decimal_megabytes_whatever_its_unit() -> None:
    params = {"medium": "sd", "filesystem": "ext4", "buffer": "4k"}
    fast = storage.fio(recorded("fio-3.33-write.txt"), params)
    assert value(fast, "storage.fio.throughput", direction="write") == 1534
    slow = storage.fio(recorded("fio-3.33-slow-read.txt"), params)
    assert value(slow, "storage.fio.throughput", direction="read") == pytest.approx(2.098)


def test_the_load_comes_from_mpstats_columns_by_their_names_not_by_their_places() -> None:
    sysstat = recorded("fio-3.33-write.txt")
    assert output.parse_mpstat(sysstat).percent == 100
    busybox = (
        b"10:00:00     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest   %idle\n"
        b"Average:     all    1.00    0.00    0.06   10.00    0.00    0.00    0.00    0.00   88.94\n"
    )
    assert output.parse_mpstat(busybox).percent == pytest.approx(1.06)
    with pytest.raises(TestTransientError, match="%idle"):
        output.parse_mpstat(busybox.replace(b"%idle", b"%rest"))


def test_a_time_of_whole_seconds_or_milliseconds_was_cut_so_it_is_sure_to_one_of_them_and_not_to_half() -> None:
    (rate,) = [r for r in processor.DHRYSTONE(played("dhrystone")) if r.metric == "dhrystone.rate"]
    assert rate.quantum / rate.value == pytest.approx(2 / 28)
    (whetstone,) = processor.WHETSTONE(played("whetstone"))
    assert whetstone.quantum / whetstone.value == pytest.approx(2 / 2)
    (mmc,) = uboot.parse(played("u-boot mmc"), 0x2000000, "emmc", "read")
    assert mmc.value == pytest.approx(171560.21, abs=0.005)
    assert mmc.quantum / mmc.value == pytest.approx(2 / 191)
    (ospi,) = storage.ospi(b"50+0 records in\nreal 0.29\nuser 0.00\nsys 0.10\n")
    assert ospi.value == pytest.approx(172.41, abs=0.005)
    assert ospi.quantum / ospi.value == pytest.approx(2 / 29)


def test_a_u_boot_transfer_that_did_not_end_well_has_no_rate() -> None:
    failed = b"MMC read: dev # 0, block # 0, count 65536 ... 0 blocks read: ERROR\n\ntime: 0.191 seconds\n"
    with pytest.raises(TestTransientError, match="ends with OK"):
        uboot.parse(failed, 0x2000000, "emmc", "read")
    (minutes,) = uboot.parse(
        b"SF: 4194304 bytes @ 0x0 Written: OK\n\ntime: 1 minutes, 2.500 seconds\n", 4 << 20, "ospi", "write"
    )
    assert minutes.value == pytest.approx(4096 / 62.5)


def test_the_largest_partition_is_found_and_flash_sizes_are_read() -> None:
    assert (
        storage.largest_mtd(
            b'dev:    size   erasesize  name\nmtd0: 00080000 00040000 "a"\nmtd5: 037c0000 00040000 "b"\n'
        )
        == "mtd5"
    )
    assert (
        uboot.flash_bytes(b"SF: Detected s28hs512t with page size 256 Bytes, erase size 256 KiB, total 64 MiB\n")
        == 64 << 20
    )
    with pytest.raises(TestTransientError, match="total N MiB"):
        uboot.flash_bytes(b"Failed to initialize SPI flash at 0:0 (error -2)\n")


def test_tcp_in_both_directions_is_their_sum_and_udp_counts_what_arrived() -> None:
    both = ethernet.tcp(played("netperf tcp"), {"port": "cpsw"})
    assert value(both, "ethernet.tcp.throughput") == pytest.approx(1767.54)
    assert value(both, "ethernet.tcp.cpu_load") == pytest.approx(66.7)
    one = ethernet.udp(played("netperf udp"), 64, {"direction": "egress"}, loss=True)
    assert value(one, "ethernet.udp.packets") == pytest.approx(37.0)
    assert value(one, "ethernet.udp.throughput") == pytest.approx(18.944)
    assert value(one, "ethernet.udp.loss") == 0
    half = played("netperf udp").replace(b"RECVD=39960000", b"RECVD=19980000")
    assert value(ethernet.udp(half, 64, {"direction": "egress"}, loss=True), "ethernet.udp.loss") == 50


def test_a_netperf_that_ignores_its_rate_is_an_error() -> None:
    text = b"Packet burst size is not compiled in.\n" + played("netperf udp")
    with pytest.raises(TestTransientError, match=r"Packet burst size"):
        ethernet.udp(text, 64, {"direction": "egress"}, loss=True)


def test_iperf3_and_iperf_are_read_at_the_receiver_and_over_the_whole_time() -> None:
    found = iperf3.tcp(recorded("iperf3-3.12-bidir.txt"), {"port": "cpsw"})
    assert {r.params["direction"]: r.value for r in found} == {"egress": 10101, "ingress": 7495}
    (window,) = pcie.IPERF(recorded("iperf-2.1.8.txt"), window="8")
    assert window.value == 22.4


def test_iperf3s_udp_is_counted_in_packets_of_the_receiver_and_its_loss_is_of_all_that_were_sent() -> None:
    text = recorded("iperf3-3.12-udp.txt")
    found = iperf3.udp(text, 128, {"direction": "egress"})
    assert value(found, "ethernet.iperf3.udp.packets") == pytest.approx(134650 / 4.01 / 1000)
    assert value(found, "ethernet.iperf3.udp.throughput") == pytest.approx(134650 / 4.01 * 128 * 8 / 1e6)
    assert value(found, "ethernet.iperf3.udp.loss") == 0
    half = text.replace(b"22.0 Mbits/sec  0.011 ms  0/134650 (0%)", b"11.0 Mbits/sec  0.011 ms  67325/134650 (50%)")
    lossy = iperf3.udp(half, 128, {"direction": "egress"})
    assert value(lossy, "ethernet.iperf3.udp.loss") == 50
    assert value(lossy, "ethernet.iperf3.udp.packets") == pytest.approx(67325 / 4.01 / 1000)


def test_a_stream_of_which_nothing_arrived_is_an_error_with_iperf3s_reason() -> None:
    broken = b"""[  5]   0.00-4.00   sec  0.00 Bytes  0.00 Mbits/sec  0.000 ms  0/0 (0%)  receiver
iperf3: error - control socket has closed unexpectedly
"""
    with pytest.raises(TestTransientError, match=r"control socket"):
        iperf3.udp(broken, 128, {})


def test_dd_says_bytes_over_seconds_of_a_whole_file_and_nothing_of_a_part_of_one() -> None:
    text = recorded("dd-coreutils-9.1-file.txt")
    (rate,) = storage.dd_file(text, {"medium": "sd"})
    assert rate.value == pytest.approx(104857600 / 0.992875 / 1e6)
    with pytest.raises(TestTransientError, match=r"1 numbers, found 0"):
        storage.dd_file(text.replace(b"104857600", b"52428800"), {})


def test_sysbench_and_stress_ng_say_operations_a_second_of_real_time() -> None:
    assert processor.sysbench_cpu(recorded("sysbench-1.0.20-cpu.txt"))[0].value == 740.23
    assert processor.sysbench_memory(recorded("sysbench-1.0.20-memory.txt"), "read")[0].value == 6367.27
    (rate,) = processor.STRESS_NG(recorded("stress-ng-0.15.06.txt"))
    assert (rate.value, rate.params) == (42.71, {"stressor": "cpu"})


def test_cyclictests_quantiles_follow_from_its_histogram_which_has_to_add_up() -> None:
    found = realtime.parse(recorded("cyclictest-2.4.txt"))
    for cpu in "01":
        order = [
            value(found, "rt.latency", cpu=cpu, statistic=name) for name in ("min", "p50", "p99", "p99.99", "max")
        ]
        assert order == sorted(order)
    text = recorded("cyclictest-2.4.txt")
    overflow = re.sub(rb"(# Histogram Overflows:) \d+ \d+", rb"\1 90000 00000", text)
    assert value(realtime.parse(overflow), "rt.latency", cpu="0", statistic="p50") == 400, "most lie behind its end"
    broken = re.sub(rb"^000021 000010", b"000021 000011", text, flags=re.MULTILINE)
    assert broken != text
    with pytest.raises(TestTransientError, match="its histogram has"):
        realtime.parse(broken)


def test_graphics_read_scores_and_the_mean_of_the_frame_rates_of_one_run() -> None:
    found = graphics.glbenchmark(played("glbenchmark"), "GLB25_FillTestC24Z16")
    assert value(found, "glbenchmark.rate", what="fps") == pytest.approx(29.6)
    assert value(found, "glbenchmark.rate", what="rate") == 61234567
    listed = b"Log: 2500005 | GLB25_EgyptTestC24Z16FixedTime\nLog: 2501011 | GLB25_FillTestC24Z16\n"
    assert graphics.glbenchmark_tests(listed)["2501011"] == "GLB25_FillTestC24Z16"


def test_audio_says_bits_and_load_of_the_direction() -> None:
    found = audio.PARSERS["capture"](played("alsa"), rate_hz="48000", direction="capture")
    assert (value(found, "audio.throughput"), value(found, "audio.cpu_load")) == (1535997, 0.11)
    playback = played("alsa").replace(b"Read:", b"write:")
    assert (
        value(audio.PARSERS["playback"](playback, rate_hz="48000", direction="playback"), "audio.throughput")
        == 1535997
    )


def test_sections_have_names_of_their_own_and_declare_metrics_that_exist() -> None:
    assert len({section.name for section in ALL}) == len(ALL)


def played(name: str) -> bytes:
    (found,) = [output.text for output in section_outputs.played() if output.name == name]
    return found


def test_a_program_with_a_number_in_a_line_is_read_by_a_table_of_patterns() -> None:
    table = output.OutputFormat(
        "mark {size}",
        {
            r"^score (\d+\.\d)$": output.PrintedNumber("linpack.rate"),
            r"^(?P<kernel>\w+) took (?P<seconds>\d+) s: (?P<value>\d+)$": output.PrintedNumber(
                "stream.bandwidth", by_digits=False
            ),
        },
        other=r"^mark \d",
        expected=2,
    )
    score, copy = table(b"mark 1.0\nscore 7.5\nCopy took 3 s: 42\n", size="4k")
    assert (score.value, score.params, score.quantum, score.seconds) == (7.5, {"size": "4k"}, 0.1, 0.0)
    assert (copy.value, copy.params, copy.quantum, copy.seconds) == (42.0, {"kernel": "copy", "size": "4k"}, 0.0, 3.0)
    assert table.metrics == ("linpack.rate", "stream.bandwidth")
    with pytest.raises(TestTransientError, match=r"8k: .*2 .*1; .*'oops'"):
        table(b"mark 1.0\nscore 7.5\noops\n", size="8k")
