"""dd of 100 MB files on every file system.

For boards without the vendor's filesystem_tests.

The rate is dd's bytes over dd's seconds: its own rate has no decimals from 100 MB/s on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from lab.benchmarks import needs, scratchfs
from lab.benchmarks.output import DD_SUMMARY, read, rule
from lab.benchmarks.section import Bench, ParsedReading, Row, Rows, Section, bus_validity, has_medium
from lab.benchmarks.storage import BUFFERS, CHAPTERS, WEARS, WRITES

FILE_BYTES = 100 << 20
FILE = f"{scratchfs.MOUNT}/test"


def parse(output: bytes, params: dict[str, str]) -> list[ParsedReading]:
    """dd's summary, whole files only."""

    def summary(match: re.Match[str]) -> list[ParsedReading]:
        size, seconds = int(match[1]), float(match[2])
        if size != FILE_BYTES or seconds <= 0:
            return []
        return [ParsedReading("storage.dd.throughput", size / seconds / 1e6, params)]

    return read(output, "dd", [rule(DD_SUMMARY, summary), rule(r"^\d+\+\d+ records")])


def _rows(bench: Bench, medium: str, filesystem: str) -> Rows:
    validity = bus_validity(bench, medium, {"storage.dd.throughput": 1.0})

    def one(size: int) -> Iterator[ParsedReading]:
        params = {"medium": medium, "filesystem": filesystem, "buffer": str(size)}
        write, back = (partial(parse, params={**params, "direction": way}) for way in ("write", "read"))
        scratchfs.make(bench, medium, filesystem)
        for _ in range(WRITES):
            command = f"dd if=/dev/zero of={FILE} bs={size} count={FILE_BYTES // size} conv=fsync 2>&1"
            yield from bench.read(write, command, timeout_s=300, validity=validity)
        scratchfs.cool(bench, medium, filesystem)
        yield from bench.read(back, f"dd if={FILE} of=/dev/null bs={size} 2>&1", timeout_s=300, validity=validity)

    for size in BUFFERS:
        yield Row(partial(one, size), {"buffer": str(size)})


def _section(medium: str, filesystem: str) -> Section:
    params = {"medium": medium, "filesystem": filesystem}
    return Section(
        name=f"{medium}-{filesystem}-dd",
        title=f"{medium} {filesystem}: files of 100 MB by dd",
        chapter=CHAPTERS[medium],
        metrics=("storage.dd.throughput",),
        rows=partial(_rows, medium=medium, filesystem=filesystem),
        restore=scratchfs.leave,
        needs=(*scratchfs.of_medium(medium, filesystem), needs.dd_that_says_its_time()),
        command="dd if=/dev/zero of=FILE bs=B count=N conv=fsync",
        overwrites=medium,
        fits=has_medium(medium),
        duration_s=120,
        params=params,
        once=WEARS,
    )


SECTIONS = tuple(_section(medium, name) for medium in ("emmc", "sd") for name in ("ext4", "ext3", "ext2", "vfat"))
