"""U-Boot's transfers, timed by its command `time`: raw eMMC and SPI flash, and files on FAT.

KiB a second, from whole milliseconds. What is written is what was read before, and it is read back and compared, so a
run that ends leaves the medium as it was; one that is cut off may not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from lab.benchmarks import needs
from lab.benchmarks.output import cut_time, lines, missing, read, rule
from lab.benchmarks.section import Bench, ParsedReading, Row, Rows, Section, has_medium
from lab.errors import BoardStableError

BLOCK = 512
APART = 0x800_0000  # bytes between the two buffers in memory
EMMC_BYTES = (0x200_0000, 0x400_0000)
FAT_BYTES = (0x40_0000, 0x80_0000, 0x100_0000)
_ERASES = "it erases half of the flash, which takes minutes and wears it out"
_DONE = r"blocks (?:read|written): OK|bytes (?:read|written) in|(?:Read|Written): OK"


def parse(output: bytes, size: int, medium: str, direction: str) -> list[ParsedReading]:
    """`time: 1 minutes, 2.345 seconds` after a transfer that says that it went well."""
    if not any(re.search(_DONE, line.text) for line in lines(output)):
        raise missing(
            "U-Boot", "a transfer that ends with OK", output.decode("utf-8", "replace").strip().partition("\n")[0]
        )

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
    """The size that `sf probe` says.

    Raises:
        TestTransientError: it found no flash.
    """
    found = re.search(rb"SF: Detected .* total (\d+) MiB", output)
    if not found:
        raise missing("sf probe", "`SF: Detected … total N MiB`", output.decode("utf-8", "replace").partition("\n")[0])
    return int(found[1]) << 20


def buffers(bench: Bench) -> tuple[int, int]:
    said = bench.run("printenv loadaddr")
    found = re.search(rb"loadaddr=(?:0x)?([0-9a-fA-F]+)", said)
    if not found:
        raise missing("U-Boot", "the variable loadaddr", said.decode("utf-8", "replace"))
    first = int(found[1], 16)
    return first, first + APART


def _compare(bench: Bench, first: int, second: int, size: int, what: str) -> None:
    said = bench.run(f"cmp.b {first:x} {second:x} {size:x}", timeout_s=120, check=False)
    if f"Total of {size} byte(s) were the same".encode() not in said:
        raise BoardStableError(
            f"{what} does not hold what was written ({said.decode('utf-8', 'replace').strip()!r}). The medium may be worn "
            "out or damaged, and this range of it is no longer what it was",
            failure="restore_failed",
        )


def _timed(bench: Bench, command: str, size: int, medium: str, direction: str) -> list[ParsedReading]:
    parser = partial(parse, size=size, medium=medium, direction=direction)
    return bench.read(parser, f"time {command}", timeout_s=600)


# How a medium is found and chosen, by U-Boot's interface to it.
CHOOSE = {
    "mmc": ("mmc dev {device}",),
    "nvme": ("pci enum", "nvme scan", "nvme device {device}"),
    "virtio": ("virtio scan", "virtio device {device}"),
}


def _choose(bench: Bench, medium: str, device: str) -> str:
    """Make a device of a medium the current one; returns U-Boot's name of its interface."""
    interface = bench.board.media[medium].uboot
    for command in CHOOSE.get(interface, ()):
        bench.run(command.format(device=device))
    return interface


def _rows(transfer: Callable[[int], Iterator[ParsedReading]], sizes: Iterable[int]) -> Rows:
    for size in sizes:
        yield Row(partial(transfer, size), {"file": f"{size:x}"})


def _emmc(bench: Bench) -> Rows:
    block = int(bench.site.scratch["emmc_blocks"], 16)
    kept, second = buffers(bench)
    mmc = _choose(bench, "emmc", "0")

    def transfer(size: int) -> Iterator[ParsedReading]:
        count = size // BLOCK
        yield from _timed(bench, f"{mmc} read {kept:x} {block:x} {count:x}", size, "emmc", "read")
        yield from _timed(bench, f"{mmc} write {kept:x} {block:x} {count:x}", size, "emmc", "write")
        bench.run(f"{mmc} read {second:x} {block:x} {count:x}", timeout_s=120)
        _compare(bench, kept, second, size, f"eMMC from block {block:#x}")

    yield from _rows(transfer, EMMC_BYTES)


def _flash(bench: Bench) -> Rows:
    offset = int(bench.site.scratch["ospi"], 16)
    kept, second = buffers(bench)
    total = flash_bytes(bench.run("sf probe"))

    def transfer(size: int) -> Iterator[ParsedReading]:
        bench.run(f"sf read {kept:x} {offset:x} {size:x}", timeout_s=120)
        bench.run(f"sf erase {offset:x} {size:x}", timeout_s=600)
        yield from _timed(bench, f"sf write {kept:x} {offset:x} {size:x}", size, "ospi", "write")
        yield from _timed(bench, f"sf read {second:x} {offset:x} {size:x}", size, "ospi", "read")
        _compare(bench, kept, second, size, f"SPI flash from {offset:#x}")

    yield from _rows(transfer, (total // 16, total // 8, total // 4, total // 2))


def _fat(bench: Bench) -> Rows:
    device = bench.site.scratch["sd_fat"]
    first, second = buffers(bench)
    mmc = _choose(bench, "sd", device.partition(":")[0])

    def transfer(size: int) -> Iterator[ParsedReading]:
        yield from _timed(bench, f"fatwrite {mmc} {device} {first:x} test {size:x}", size, "sd", "write")
        yield from _timed(bench, f"fatload {mmc} {device} {second:x} test", size, "sd", "read")
        _compare(bench, first, second, size, f"the file `test` on {mmc} {device}")

    yield from _rows(transfer, FAT_BYTES)


def _empty_file(bench: Bench) -> None:
    """U-Boot cannot remove a file; an empty one is what the vendor leaves."""
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
    """Every size has been read back and compared where it was written."""


SECTIONS = (
    _section("uboot-ospi", "U-Boot OSPI", "UBoot QSPI/OSPI Driver", "ospi", "ospi", "time sf write|read"),
    _section("uboot-emmc", "U-Boot eMMC raw", "UBoot EMMC Driver", "emmc", "emmc_blocks", "time mmc write|read"),
    _section("uboot-sd", "U-Boot SD FAT", "UBoot MMCSD", "sd", "sd_fat", "time fatwrite|fatload mmc"),
)
