"""U-Boot's reads, timed by the console's stamps: on a simulated board, and from events that are written here."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import define, field
from support.scripted_host import ScriptedHost, session
from support.section_bench import TFTP, UBOOT, section_bench

from lab.benchmarks import uboottransfer
from lab.benchmarks.lab_site import LabSite
from lab.benchmarks.section import Marks, OutputSpan, preflight
from lab.benchmarks.sections import ALL
from lab.console.model import Chunk, Event, Gap, LineTiming, RecordKind, Suspended
from lab.errors import BoardTransientError, ConfigurationError, LabTransientError, TestTransientError
from lab.metrics import Flag
from lab.pytest_plugin.labgrid_host import ConsoleStamps
from lab.virtual.sim.network import FolderTftp

SECTIONS = {section.name: section for section in ALL}
TIMING = LineTiming(115200)
SECOND_NS = 1_000_000_000
MARKS = Marks(r"count \d+ \.\.\. ", r"\.\.\. \d")
BEGINS = b"\r\nMMC read: dev # 0, block # 0, count 32768 ... "
SAYS = "MMC read: dev # 0, block # 0, count 32768 ... 32768 blocks read: OK\n"


@define
class Console:
    capture: list[Event] = field(factory=list)

    def came(self, seconds: float, data: bytes) -> None:
        end = next((event.end for event in reversed(self.capture) if isinstance(event, Chunk)), 0)
        self.capture.append(Chunk(round(seconds * SECOND_NS), end, data))


def of_blocks(span: OutputSpan) -> uboottransfer.ParsedReading:
    (found,) = uboottransfer.parse_read(
        SAYS.encode(), span, uboottransfer.READ, uboottransfer._BLOCKS_READ, {"medium": "sd"}, 512
    )
    assert SAYS.encode()[found.start : found.end] == SAYS.encode(), "its evidence is all that U-Boot said"
    return found


def test_a_board_reads_as_fast_by_the_stamps_as_by_its_own_command_time(tmp_path: Path) -> None:
    with section_bench(tmp_path, "am62xx_sk") as bench:
        for name in ("uboot-read", "uboot-emmc"):
            bench.run.measure(SECTIONS[name])
        by_stamps = bench.store.samples(bench.run.run.id, metric=uboottransfer.READ)
        by_itself = bench.store.samples(bench.run.run.id, metric="uboot.throughput")
    assert {(s.params["medium"], s.params["file"]) for s in by_stamps} == {(medium, "1000000") for medium in UBOOT}
    (own, *_) = [s.value for s in by_itself if s.params["direction"] == "read" and s.params["file"] == "2000000"]
    emmc = [s for s in by_stamps if s.params["medium"] == "emmc"]
    assert all(abs(s.value - own) <= s.uncertainty + 0.02 * own for s in emmc)
    assert all(0 < s.uncertainty < 0.1 * s.value for s in emmc)


def test_a_file_over_tftp_has_a_rate_and_the_board_asks_for_an_address_once(tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / TFTP.partition(":")[2]).write_bytes(bytes(1 << 20))
    with section_bench(tmp_path, "am62xx_sk") as bench:
        bench.lab.board.network = FolderTftp(tmp_path / "served")
        section = SECTIONS["uboot-tftp"]
        made = bench.session(section)
        found = [reading for _ in range(2) for reading in section.measure(made)]
    assert [reading.params for reading in found] == [{"file": "100000"}] * 2
    assert all(reading.value > 0 for reading in found)
    assert made.transcript.count(b"board$ dhcp\n") == 1


def test_the_span_is_from_the_last_byte_of_one_text_to_the_first_of_the_other() -> None:
    console = Console()
    console.came(1.0, b"=> an older count 1 ... 7\r\n")
    span = ConsoleStamps(console, lambda: TIMING).since_now()
    console.came(2.0, b"mmc read 82000000 0 8000" + BEGINS)
    console.came(4.0, b"32768 blocks read: OK\r\n=> ")
    found = span(MARKS)
    behind = TIMING.bytes_ns(len(b"2768 blocks read: OK\r\n=> ")) / 1e9
    assert found.seconds == pytest.approx(2.0 - behind, abs=1e-6)
    assert found.line_s == pytest.approx(TIMING.bytes_ns(len(BEGINS) - 2) / 1e9)
    assert found.uncertainty_s > 0


def test_the_time_of_the_first_line_on_the_wire_is_in_the_uncertainty() -> None:
    sure, unsure = of_blocks(OutputSpan(2.0, 0.001, 0.0)), of_blocks(OutputSpan(2.0, 0.001, 0.005))
    assert sure.value == unsure.value == 8192
    assert unsure.quantum / 2 == pytest.approx(8192 * 0.006 / 1.994)
    assert sure.quantum < unsure.quantum
    assert unsure.flags == frozenset()
    assert of_blocks(OutputSpan(0.01, 0.001, 0.005)).flags == {Flag.UNCERTAIN}


@pytest.mark.parametrize(
    ("event", "failure"),
    [
        (Suspended(3 * SECOND_NS, 0, SECOND_NS), "host_suspended"),
        (Gap(3 * SECOND_NS, 0, RecordKind.DROPPED, 9), "adapter_lost"),
    ],
)
def test_stamps_across_a_suspended_host_or_lost_bytes_give_no_number(event: Event, failure: str) -> None:
    console = Console()
    span = ConsoleStamps(console, lambda: TIMING).since_now()
    console.came(2.0, BEGINS)
    console.capture.append(event)
    console.came(4.0, b"32768 blocks read: OK\r\n=> ")
    with pytest.raises(LabTransientError) as raised:
        span(MARKS)
    assert raised.value.failure == failure


def test_a_text_that_does_not_come_is_no_number() -> None:
    console = Console()
    span = ConsoleStamps(console, lambda: TIMING).since_now()
    console.came(2.0, b"Card did not respond to voltage select! : -110\r\n=> ")
    with pytest.raises(TestTransientError, match="count"):
        span(MARKS)


@pytest.mark.parametrize("said", ["0 blocks read: OK\n", "8 blocks read: ERROR\n", ""])
def test_a_read_that_did_not_end_well_is_no_number(said: str) -> None:
    with pytest.raises(TestTransientError, match="read that ends well"):
        uboottransfer.parse_read(
            said.encode(), OutputSpan(1.0, 0.001, 0.0), uboottransfer.READ, uboottransfer._BLOCKS_READ, {}, 512
        )


@define
class Stamps:
    """As of a console at which nothing of what was awaited came."""

    def since_now(self) -> object:
        def span(marks: Marks) -> OutputSpan:
            raise TestTransientError(f"no {marks.begin}", failure="unreadable_output")

        return span


def test_a_read_that_the_board_refuses_is_its_failure() -> None:
    host = ScriptedHost({"loadaddr": "loadaddr=0x82000000", "mmc read": ("Card did not respond\n", 1)})
    bench = session(host, site=LabSite(uboot={"sd": "mmc 1"}))
    bench.stamps = Stamps()  # type: ignore[assignment]
    with pytest.raises(BoardTransientError, match="Card did not respond"):
        list(SECTIONS["uboot-read"].measure(bench))


def test_a_device_that_does_not_answer_the_first_time_is_asked_again() -> None:
    host = ScriptedHost({"loadaddr": "loadaddr=0x82000000", "mmc dev": [("no card\n", 1), ""], "mmc read": ("", 1)})
    bench = session(host, site=LabSite(uboot={"sd": "mmc 1"}))
    bench.stamps = Stamps()  # type: ignore[assignment]
    with pytest.raises(BoardTransientError):
        list(SECTIONS["uboot-read"].measure(bench))
    assert host.ran.count("mmc dev 1") == 2


def test_a_prompt_that_is_at_no_console_says_so() -> None:
    bench = session(ScriptedHost({"loadaddr": "loadaddr=0x82000000"}), site=LabSite(uboot={"sd": "mmc 1"}))
    with pytest.raises(ConfigurationError, match="StampedConsoleDriver"):
        list(SECTIONS["uboot-read"].measure(bench))


@pytest.mark.parametrize(
    ("name", "site", "said"),
    [
        ("uboot-read", LabSite(), "uboot: {sd: mmc 0"),
        ("uboot-read", LabSite(uboot={"nand": "nand 0"}), "names nand"),
        ("uboot-tftp", LabSite(), "tftp: FILE"),
    ],
)
def test_what_the_environment_lacks_is_said_with_what_to_add(name: str, site: LabSite, said: str) -> None:
    (problem,) = preflight(SECTIONS[name], session(ScriptedHost(), site=site)).failed.values()
    assert said in problem


def test_a_device_that_u_boot_reads_in_no_known_way_is_a_mistake_in_the_environment() -> None:
    bench = session(ScriptedHost({"loadaddr": "loadaddr=0x82000000"}), site=LabSite(uboot={"sd": "usb 0"}))
    with pytest.raises(ConfigurationError, match="usb 0"):
        list(SECTIONS["uboot-read"].measure(bench))


def over_tftp(seconds: float, lost: bytes = b"") -> tuple[uboottransfer.ParsedReading, ...]:
    """What is read of 16 MiB that took so long, as net/tftp.c tells it with a UART that it waits for."""
    hashes = b"\r\n\t ".join([b"#" * 65] * 3)
    rate = f"\r\n\t {16 / seconds:.1f} MiB/s\r\n".encode()
    console, at_s = Console(), 2.0
    span = ConsoleStamps(console, lambda: TIMING).since_now()
    said = b""
    for text, works_s in (
        (b"\r\nLoading: ", 0.0),
        (b"*\b", 0.0),
        (hashes, seconds),
        (lost + rate + b"done\r\nBytes transferred = 16777216 (1000000 hex)\r\n=> ", 0.0),
    ):
        for byte in text:
            at_s += works_s / len(text) + TIMING.bytes_ns(1) / 1e9
            console.came(at_s, bytes([byte]))
        said += text
    return tuple(uboottransfer.parse_tftp(said.replace(b"\r", b""), span(uboottransfer._OF_TFTP)))


@pytest.mark.parametrize("seconds", [0.15, 1.5])
def test_what_u_boot_prints_around_a_transfer_is_in_the_uncertainty(seconds: float) -> None:
    (found,) = over_tftp(seconds)
    true = 16 * 1024 / seconds
    assert abs(found.value - true) <= found.quantum / 2 < 0.3 * found.value
    assert found.flags == frozenset()


@pytest.mark.parametrize("lost", [b"T ", b"\r\n\t T T "])
def test_a_transfer_that_waited_for_a_lost_packet_is_no_number(lost: bytes) -> None:
    with pytest.raises(LabTransientError, match="lost"):
        over_tftp(1.5, lost)


@pytest.mark.parametrize("said", ["3268 blocks read: OK\n", "SF: 1677216 bytes @ 0x0 Read: OK\n"])
def test_another_number_of_bytes_than_was_asked_for_lacks_a_digit_and_is_no_rate(said: str) -> None:
    pattern, unit = (uboottransfer._FLASH_READ, 1) if said.startswith("SF") else (uboottransfer._BLOCKS_READ, 512)
    with pytest.raises(TestTransientError, match=f"16777216 .*'{said.strip()}'") as caught:
        uboottransfer.parse_read(
            said.encode(), OutputSpan(1.0, 0.001, 0.0), uboottransfer.READ, pattern, {}, unit, uboottransfer.BYTES
        )
    assert caught.value.failure == "unreadable_output"


def test_a_transfer_whose_bytes_are_not_the_same_in_decimal_and_in_hex_lost_a_digit() -> None:
    said, span = "Bytes transferred = {} (1000000 hex)\n", OutputSpan(1.0, 0.001, 0.0)
    assert uboottransfer.parse_tftp(said.format(16777216).encode(), span)[0].value == 16384
    with pytest.raises(TestTransientError, match="another one in hex") as caught:
        uboottransfer.parse_tftp(said.format(1677216).encode(), span)
    assert caught.value.failure == "unreadable_output"
