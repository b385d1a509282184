"""U-Boot's transfers on eMMC, SPI flash and FAT, by `time`.

KiB a second, from whole milliseconds. It writes the data that it read before, and reads it back and compares it, so a
finished run leaves the medium unchanged; an interrupted one may not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from lab.benchmarks import needs
from lab.benchmarks.output import cut_time, first_line, lines, missing, read, refusal, rule
from lab.benchmarks.section import (
    Bench,
    Marks,
    OutputSpan,
    ParsedReading,
    Row,
    Rows,
    Section,
    Validity,
    bus_validity,
    has_medium,
    link_mbit_s,
    whole,
)
from lab.errors import BoardStableError, ConfigurationError, LabTransientError
from lab.metrics import Flag

BLOCK = 512
KIB_S = 1e6 / 1024  # of 1 MB/s
APART = 0x800_0000  # bytes between the two buffers in memory
EMMC_BYTES = (0x200_0000, 0x400_0000)
FAT_BYTES = (0x40_0000, 0x80_0000, 0x100_0000)
_ERASES = "it erases half of the flash, which takes minutes and wears it out"
_DONE = r"blocks (?:read|written): OK|bytes (?:read|written) in|(?:Read|Written): OK"


def parse(output: bytes, size: int, medium: str, direction: str) -> list[ParsedReading]:
    """The duration after a successful transfer: `time: 1 minutes, 2.345 seconds`."""
    if not any(re.search(_DONE, line.text) for line in lines(output)):
        raise missing("U-Boot", "a transfer that ends with OK", first_line(output))

    def took(match: re.Match[str]) -> list[ParsedReading]:
        seconds = 60 * float(match[1] or 0) + float(match[2])
        if seconds <= 0:
            return []
        value = size / 1024 / seconds
        params = {"file": f"{size:x}", "direction": direction, "medium": medium}
        return [ParsedReading("uboot.throughput", value, params, quantum=cut_time(value, seconds, 0.001))]

    rules = [
        rule(r"^time: (?:(\d+) minutes, )?(\d+\.\d{3}) seconds$", took),
        rule(rf"{_DONE}|^(?:MMC|nvme|virtio) (?:read|write)|^device \d|^$"),
    ]
    return read(output, "U-Boot time", rules)


def flash_bytes(output: bytes) -> int:
    """The flash size from `sf probe`.

    Raises:
        TestTransientError: it found no flash.
    """
    match = re.search(rb"SF: Detected .* total (\d+) MiB", output)
    if not match:
        raise missing("sf probe", "`SF: Detected … total N MiB`", output.decode("utf-8", "replace").partition("\n")[0])
    return int(match[1]) << 20


def buffers(bench: Bench) -> tuple[int, int]:
    output = bench.run("printenv loadaddr")
    match = re.search(rb"loadaddr=(?:0x)?([0-9a-fA-F]+)", output)
    if not match:
        raise missing("U-Boot", "the variable loadaddr", output.decode("utf-8", "replace"))
    first = int(match[1], 16)
    return first, first + APART


def _compare(bench: Bench, first: int, second: int, size: int, what: str) -> None:
    output = bench.run(f"cmp.b {first:x} {second:x} {size:x}", timeout_s=120, check=False)
    if f"Total of {size} byte(s) were the same".encode() not in output:
        raise BoardStableError(
            f"{what} does not hold what was written ({output.decode('utf-8', 'replace').strip()!r}). The medium may "
            "be worn out or damaged, and this range of it is no longer what it was",
            failure="restore_failed",
        )


def _time_command(bench: Bench, command: str, size: int, medium: str, direction: str) -> list[ParsedReading]:
    parser = partial(parse, size=size, medium=medium, direction=direction)
    validity = bus_validity(bench, medium, {"uboot.throughput": KIB_S})
    return bench.read(parser, f"time {command}", timeout_s=600, validity=validity)


# Commands that find and choose a medium, by U-Boot's interface.
CHOOSE = {
    "mmc": ("mmc dev {device}",),
    "nvme": ("pci enum", "nvme scan", "nvme device {device}"),
    "virtio": ("virtio scan", "virtio device {device}"),
}


def _choose(bench: Bench, medium: str, device: str) -> str:
    """Select a medium's device; return U-Boot's name of its interface."""
    interface = bench.board.media[medium].uboot
    for command in CHOOSE.get(interface, ()):
        bench.run(command.format(device=device))
    return interface


def _rows(transfer: Callable[[int], Iterator[ParsedReading]], sizes: Iterable[int]) -> Rows:
    for size in sizes:
        yield Row(partial(transfer, size), {"file": f"{size:x}"})


def _emmc(bench: Bench) -> Rows:
    block = int(bench.site.scratch["emmc_blocks"], 16)
    original, second = buffers(bench)
    mmc = _choose(bench, "emmc", "0")

    def transfer(size: int) -> Iterator[ParsedReading]:
        count = size // BLOCK
        yield from _time_command(bench, f"{mmc} read {original:x} {block:x} {count:x}", size, "emmc", "read")
        yield from _time_command(bench, f"{mmc} write {original:x} {block:x} {count:x}", size, "emmc", "write")
        bench.run(f"{mmc} read {second:x} {block:x} {count:x}", timeout_s=120)
        _compare(bench, original, second, size, f"eMMC from block {block:#x}")

    yield from _rows(transfer, EMMC_BYTES)


def _flash(bench: Bench) -> Rows:
    offset = int(bench.site.scratch["ospi"], 16)
    original, second = buffers(bench)
    total = flash_bytes(bench.run("sf probe"))

    def transfer(size: int) -> Iterator[ParsedReading]:
        bench.run(f"sf read {original:x} {offset:x} {size:x}", timeout_s=120)
        bench.run(f"sf erase {offset:x} {size:x}", timeout_s=600)
        yield from _time_command(bench, f"sf write {original:x} {offset:x} {size:x}", size, "ospi", "write")
        yield from _time_command(bench, f"sf read {second:x} {offset:x} {size:x}", size, "ospi", "read")
        _compare(bench, original, second, size, f"SPI flash from {offset:#x}")

    yield from _rows(transfer, (total // 16, total // 8, total // 4, total // 2))


def _fat(bench: Bench) -> Rows:
    device = bench.site.scratch["sd_fat"]
    first, second = buffers(bench)
    mmc = _choose(bench, "sd", device.partition(":")[0])

    def transfer(size: int) -> Iterator[ParsedReading]:
        yield from _time_command(bench, f"fatwrite {mmc} {device} {first:x} test {size:x}", size, "sd", "write")
        yield from _time_command(bench, f"fatload {mmc} {device} {second:x} test", size, "sd", "read")
        _compare(bench, first, second, size, f"the file `test` on {mmc} {device}")

    yield from _rows(transfer, FAT_BYTES)


def _empty_file(bench: Bench) -> None:
    """Empty the test file, which U-Boot cannot remove."""
    mmc = bench.board.media["sd"].uboot
    bench.run(f"fatwrite {mmc} {bench.site.scratch['sd_fat']} ${{loadaddr}} test 0", check=False)


def _section(name: str, title: str, chapter: str, medium: str, scratch: str, command: str) -> Section:
    rows = {"emmc_blocks": _emmc, "ospi": _flash, "sd_fat": _fat}
    return Section(
        name=name,
        title=title,
        chapter=chapter,
        metrics=("uboot.throughput",),
        rows=rows[scratch],
        restore=_empty_file if scratch == "sd_fat" else _leave,
        needs=(needs.scratch(scratch), needs.uboot_time()),
        where="uboot",
        overwrites=scratch,
        command=command,
        fits=has_medium(medium),
        duration_s=60,
        params={"medium": medium},
        once=_ERASES if scratch == "ospi" else "",
    )


def _leave(_bench: Bench) -> None:
    """Do nothing: every size was read back and compared when written."""


SECTIONS = (
    _section("uboot-ospi", "U-Boot OSPI", "UBoot QSPI/OSPI Driver", "ospi", "ospi", "time sf write|read"),
    _section("uboot-emmc", "U-Boot eMMC raw", "UBoot EMMC Driver", "emmc", "emmc_blocks", "time mmc write|read"),
    _section("uboot-sd", "U-Boot SD FAT", "UBoot MMCSD", "sd", "sd_fat", "time fatwrite|fatload mmc"),
)


# A U-Boot says what it is about to read, and that it has read it. The number is from the last byte of the one to the
# first bytes of the other, in KiB a second: a stamp is that of the last byte which a pattern of `Marks` takes. It is
# another definition than that of `uboot.throughput`, whose time U-Boot takes itself.


CHAPTER = "UBoot Reads"
FLASH = "sf"
BYTES = 0x100_0000
READ, LOADED = "uboot.read_rate", "uboot.tftp_rate"
MOST_SHARE = 0.5  # a ± beyond it says little of the number
_TIMEOUT_S = 600.0
# cmd/mmc.c, cmd/blk_common.c: the text before the read ends with dots, and the number of blocks is the first behind
# it.
_OF_BLOCKS = Marks(r"read: \w.* count \d+ \.\.\. ", r"\.\.\. \d")
_OF_FLASH = Marks(r"^device \d+ (?:whole chip|offset 0x[0-9a-f]+, size 0x[0-9a-f]+)", "^SF: ")  # cmd/mtd, cmd/sf.c
# net/tftp.c: the rate's line, which stands in line with the hashes; a transfer of no whole millisecond has none.
_OF_TFTP = Marks("^Loading: ", r"^(?:\t \d|done)")
_LOST = re.compile(r"^Loading: (?:(?!^done|^Bytes)[\s\S])*?\bT\b", re.MULTILINE)
_BLOCKS_READ, _FLASH_READ = r"(\d+) blocks read: OK", r"SF: (\d+) bytes @ 0x[0-9a-f]+ Read: OK"
_TRANSFERRED = r"Bytes transferred = (\d+) \(([0-9a-f]+) hex\)"


def parse_read(
    output: bytes, span: OutputSpan, metric: str, pattern: str, params: dict[str, str], unit: int, asked: int = 0
) -> list[ParsedReading]:
    """The rate of a successful read.

    Args:
        pattern: of U-Boot's success line; its group counts units of so many bytes.
        asked: requested number of bytes; 0: unknown before.

    Raises:
        TestTransientError: the line is missing, or has another number of bytes.
    """
    text = output.decode("utf-8", "replace")
    match = re.search(pattern, text)
    if match is None or not int(match[1]) or span.seconds <= 0:
        raise missing("U-Boot", "a read that ends well", first_line(output))
    size = int(match[1]) * unit
    if asked and size != asked:
        raise refusal("U-Boot", f"it was told to read {asked} bytes, and {match[0]!r} is another number of them")
    value = size / 1024 / span.seconds
    unsure_s = span.uncertainty_s + span.line_s + span.between_s
    surest_s = max(span.seconds - unsure_s, span.seconds * (1 - MOST_SHARE))
    flags = frozenset({Flag.UNCERTAIN} if unsure_s > MOST_SHARE * span.seconds else ())
    uncertainty, of = value * unsure_s / surest_s, {**params, "file": f"{size:x}"}
    return [ParsedReading(metric, value, of, quantum=2 * uncertainty, end=len(output), flags=flags)]


def _blocks(bench: Bench, medium: str, interface: str, number: str, address: int) -> Iterable[ParsedReading]:
    for choose in CHOOSE[interface]:
        command = choose.format(device=number)
        if bench.status(command):  # SD on SPI does not answer every other time at first
            bench.run(command)
    command = f"{interface} read {address:x} 0 {BYTES // BLOCK:x}"
    parser = partial(parse_read, metric=READ, pattern=_BLOCKS_READ, params={"medium": medium}, unit=BLOCK, asked=BYTES)
    validity = bus_validity(bench, medium, {READ: KIB_S})
    return bench.timed(parser, command, _OF_BLOCKS, timeout_s=_TIMEOUT_S, validity=validity)


def _flash_read(bench: Bench, medium: str, number: str, address: int) -> Iterable[ParsedReading]:
    bench.run(f"sf probe {number}".strip())
    parser = partial(parse_read, metric=READ, pattern=_FLASH_READ, params={"medium": medium}, unit=1, asked=BYTES)
    command, validity = f"sf read {address:x} 0 {BYTES:x}", bus_validity(bench, medium, {READ: KIB_S})
    return bench.timed(parser, command, _OF_FLASH, timeout_s=_TIMEOUT_S, validity=validity)


def _media(bench: Bench) -> Rows:
    address, _ = buffers(bench)
    for medium, device in bench.site.uboot.items():
        interface, _, number = device.partition(" ")
        if interface == FLASH:
            yield Row(partial(_flash_read, bench, medium, number, address), {"medium": medium})
        elif interface in CHOOSE:
            yield Row(partial(_blocks, bench, medium, interface, number, address), {"medium": medium})
        else:
            raise ConfigurationError(
                f"the env's benchmarks.uboot has {medium}: {device!r}, and boardlab reads by U-Boot's "
                f"{', '.join((*CHOOSE, FLASH))}; write e.g. `mmc 0`, or `sf`"
            )


def parse_tftp(output: bytes, span: OutputSpan) -> list[ParsedReading]:
    """The rate of a transfer without loss; see `parse_read`.

    Raises:
        TestTransientError: the decimal and the hexadecimal number of bytes differ.
        LabTransientError: U-Boot waited for lost packets, 5 s each: the time does not measure the link.
    """
    readings, text = parse_read(output, span, LOADED, _TRANSFERRED, {}, 1), output.decode("utf-8", "replace")
    if any(int(match[1]) != int(match[2], 16) for match in re.finditer(_TRANSFERRED, text)):
        raise refusal("U-Boot", "it says one number of bytes in decimal and another one in hex: characters were lost")
    if _LOST.search(text):
        raise LabTransientError(
            "U-Boot says `T`: a packet of the transfer was lost, and it waited for it: look at the cable, the switch "
            "and the TFTP server",
            failure="link_lossy",
        )
    return readings


def _tftp(bench: Bench) -> Iterator[ParsedReading]:
    address, _ = buffers(bench)
    if bench.status("printenv ipaddr"):
        bench.run("setenv autoload no")
        bench.run("dhcp", timeout_s=60)
    # Any may be U-Boot's
    fastest = max((link_mbit_s(bench.board, link.name) for link in bench.board.links), default=0.0)
    validity = Validity(0, {LOADED: fastest / 8 * KIB_S}, "the fastest link")
    command = f"tftpboot {address:x} {bench.site.tftp}"
    yield from bench.timed(parse_tftp, command, _OF_TFTP, timeout_s=_TIMEOUT_S, validity=validity)


READ_SECTIONS = (
    Section(
        name="uboot-read",
        title="U-Boot's reads of its media, by the console's stamps",
        chapter=CHAPTER,
        metrics=(READ,),
        rows=_media,
        needs=(needs.uboot_devices(),),
        where="uboot",
        command="mmc read; sf read",
        duration_s=60,
    ),
    Section(
        name="uboot-tftp",
        title="U-Boot's loads over TFTP, by the console's stamps",
        chapter=CHAPTER,
        metrics=(LOADED,),
        rows=whole(_tftp),
        needs=(needs.tftp_file(),),
        where="uboot",
        command="tftpboot",
        duration_s=30,
    ),
)
