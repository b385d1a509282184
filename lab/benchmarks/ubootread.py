"""U-Boot's reads from its media and over TFTP, timed by the console's stamps: they need no command `time`, and write nothing.

A U-Boot says what it is about to read, and that it has read it. The number is from the last byte of the one to the
first bytes of the other, in KiB a second: a stamp is that of the last byte which a pattern of `Marks` takes. It is another definition than that of `uboot.throughput`, whose time U-Boot takes itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial

from lab.benchmarks import needs
from lab.benchmarks.output import missing, refused
from lab.benchmarks.section import Bench, Marks, ParsedReading, Row, Rows, Section, Span, whole
from lab.benchmarks.uboottransfer import BLOCK, CHOOSE, buffers
from lab.errors import ConfigurationError, LabTransientError
from lab.metrics import Flag

CHAPTER = "UBoot Reads"
FLASH = "sf"
BYTES = 0x100_0000
READ, LOADED = "uboot.read_rate", "uboot.tftp_rate"
MOST_SHARE = 0.5  # a ± beyond it says little of the number
_TIMEOUT_S = 600.0
# cmd/mmc.c, cmd/blk_common.c: the text before the read ends with dots, and the number of blocks is the first behind it.
_OF_BLOCKS = Marks(r"read: \w.* count \d+ \.\.\. ", r"\.\.\. \d")
_OF_FLASH = Marks(r"^device \d+ (?:whole chip|offset 0x[0-9a-f]+, size 0x[0-9a-f]+)", "^SF: ")  # cmd/mtd, cmd/sf.c
# net/tftp.c: the rate's line, which stands in line with the hashes; a transfer of no whole millisecond has none.
_OF_TFTP = Marks("^Loading: ", r"^(?:\t \d|done)")
_LOST = re.compile(r"^Loading: (?:(?!^done|^Bytes)[\s\S])*?\bT\b", re.MULTILINE)
_BLOCKS_READ, _FLASH_READ = r"(\d+) blocks read: OK", r"SF: (\d+) bytes @ 0x[0-9a-f]+ Read: OK"
_TRANSFERRED = r"Bytes transferred = (\d+) \(([0-9a-f]+) hex\)"


def parse(
    output: bytes, span: Span, metric: str, pattern: str, params: dict[str, str], unit: int, asked: int = 0
) -> list[ParsedReading]:
    """The rate of a read that went well.

    Args:
        pattern: of what U-Boot says then; its group counts units of so many bytes.
        asked: how many bytes it was told to read; 0: nobody knows before.

    Raises:
        TestTransientError: it does not say so, or says another number of bytes.
    """
    text = output.decode("utf-8", "replace")
    said = re.search(pattern, text)
    if said is None or not int(said[1]) or span.seconds <= 0:
        raise missing(
            "U-Boot", "a read that ends well", next((line for line in text.splitlines() if line.strip()), "")
        )
    size = int(said[1]) * unit
    if asked and size != asked:
        raise refused("U-Boot", f"it was told to read {asked} bytes, and {said[0]!r} is another number of them")
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
    parser = partial(parse, metric=READ, pattern=_BLOCKS_READ, params={"medium": medium}, unit=BLOCK, asked=BYTES)
    return bench.timed(parser, command, _OF_BLOCKS, timeout_s=_TIMEOUT_S)


def _flash(bench: Bench, medium: str, number: str, address: int) -> Iterable[ParsedReading]:
    bench.run(f"sf probe {number}".strip())
    parser = partial(parse, metric=READ, pattern=_FLASH_READ, params={"medium": medium}, unit=1, asked=BYTES)
    return bench.timed(parser, f"sf read {address:x} 0 {BYTES:x}", _OF_FLASH, timeout_s=_TIMEOUT_S)


def _media(bench: Bench) -> Rows:
    address, _ = buffers(bench)
    for medium, device in bench.site.uboot.items():
        interface, _, number = device.partition(" ")
        if interface == FLASH:
            yield Row(partial(_flash, bench, medium, number, address), {"medium": medium})
        elif interface in CHOOSE:
            yield Row(partial(_blocks, bench, medium, interface, number, address), {"medium": medium})
        else:
            raise ConfigurationError(
                f"the env's benchmarks.uboot has {medium}: {device!r}, and boardlab reads by U-Boot's {', '.join((*CHOOSE, FLASH))}; "
                "write e.g. `mmc 0`, or `sf`"
            )


def parse_tftp(output: bytes, span: Span) -> list[ParsedReading]:
    """The rate of a transfer in which nothing was lost; see `parse`.

    Raises:
        TestTransientError: what it says in decimal and in hex are not the same number of bytes.
        LabTransientError: U-Boot waited for a packet that did not come, 5 s each: the time says nothing of the link.
    """
    readings, text = parse(output, span, LOADED, _TRANSFERRED, {}, 1), output.decode("utf-8", "replace")
    if any(int(said[1]) != int(said[2], 16) for said in re.finditer(_TRANSFERRED, text)):
        raise refused("U-Boot", "it says one number of bytes in decimal and another one in hex: characters were lost")
    if _LOST.search(text):
        raise LabTransientError(
            "U-Boot says `T`: a packet of the transfer was lost, and it waited for it: look at the cable, the switch and the TFTP server",
            failure="link_lossy",
        )
    return readings


def _tftp(bench: Bench) -> Iterator[ParsedReading]:
    address, _ = buffers(bench)
    if bench.status("printenv ipaddr"):
        bench.run("setenv autoload no")
        bench.run("dhcp", timeout_s=60)
    yield from bench.timed(parse_tftp, f"tftpboot {address:x} {bench.site.tftp}", _OF_TFTP, timeout_s=_TIMEOUT_S)


SECTIONS = (
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
