"""File systems and flash under Linux: 100 MB files, fio, dd.

The sections of files format the scratch partition of the environment. Files by dd are for boards without the vendor's
filesystem_tests; their rate is dd's bytes over dd's seconds, since its own has no decimals from 100 MB/s on. MB are
10^6 bytes, except for the OSPI's raw reads, whose MB the vendor counts as 2^20 (MiB here).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from attrs import evolve

from lab.benchmarks import needs
from lab.benchmarks import output as benchmarks_output
from lab.benchmarks.output import DD_SUMMARY, cut_time, lines, missing, printed_step, read, refusal, rule
from lab.benchmarks.section import Bench, Need, ParsedReading, Row, Rows, Section, bus_validity, has_medium, whole

SOURCE = "/run/boardlab.src"  # on the board: in memory, and nobody but root makes files there
BUFFERS = (102400, 262144, 524288, 1048576, 5242880)
WRITES = 5  # as the vendor: a cell of writing has the average, minimum and maximum of five
FLASH_WEAR = "it writes 2.5 GB, each number of writing five times, and flash wears out"
FIO_SIZES = ("4m", "1m", "256k", "4k")
FIO_OUT = "/run/boardlab.fio"
OSPI_BYTES = 52_428_800
CHAPTERS = {"emmc": "EMMC Driver", "sd": "MMCSD", "nand": "NAND Driver"}
_UNITS = {"kB": 1e-3, "MB": 1.0, "GB": 1e3, "B": 1e-6}
MOUNT = "/mnt/boardlab"
_MKFS = {"ext2": "mkfs.ext2 -F", "ext3": "mkfs.ext3 -F", "ext4": "mkfs.ext4 -F", "vfat": "mkfs.vfat"}
_MKFS_PACKAGES = {"vfat": "dosfstools", "ubifs": "mtd-utils"}
DD_FILE_BYTES = 100 << 20
DD_FILE = f"{MOUNT}/test"


def scratch_needs(medium: str, filesystem: str) -> tuple[Need, ...]:
    """The needs of a section that formats a scratch partition."""
    tools = ("flash_eraseall", "ubiattach") if filesystem == "ubifs" else (_MKFS[filesystem].split()[0],)
    return (
        needs.scratch(medium),
        needs.unused_partition(medium),
        *(needs.tool(name, _MKFS_PACKAGES.get(filesystem, "e2fsprogs")) for name in tools),
        needs.filesystem(filesystem),
    )


def make_filesystem(bench: Bench, medium: str, filesystem: str) -> None:
    """Format and mount, without sync, which is many times slower."""
    device = bench.site.scratch[medium]
    bench.run(f"umount {device} 2>/dev/null; mkdir -p {MOUNT}")
    if filesystem == "ubifs":
        bench.run(f"flash_eraseall {device}", timeout_s=300)
        bench.run(f"ubiattach -p {device} && ubimkvol /dev/ubi0 -N boardlab -m", timeout_s=60)
        bench.run(f"mount -t ubifs -o async ubi0:boardlab {MOUNT}")
    else:
        bench.run(f"{_MKFS[filesystem]} {device} > /dev/null 2>&1", timeout_s=300)
        bench.run(f"mount -t {filesystem} -o async {device} {MOUNT}")


def drop_page_cache(bench: Bench, medium: str, filesystem: str) -> None:
    """Drop its page cache."""
    device = "ubi0:boardlab" if filesystem == "ubifs" else bench.site.scratch[medium]
    bench.run(f"sync; umount {MOUNT} && echo 3 > /proc/sys/vm/drop_caches")
    bench.run(f"mount -t {filesystem} -o async {device} {MOUNT}")


def unmount(bench: Bench) -> None:
    """Unmount it, if mounted."""
    bench.run(f"umount {MOUNT} 2>/dev/null; rmdir {MOUNT} 2>/dev/null", check=False)
    if bench.status(f"grep -q ' {MOUNT} ' /proc/mounts") == 0:
        bench.run(f"umount -l {MOUNT}")


def unmount_ubi(bench: Bench) -> None:
    """Unmount and detach a file system on raw flash."""
    unmount(bench)
    bench.run(f"ubidetach -p {bench.site.scratch['nand']}", check=False)


def file_test(output: bytes, params: dict[str, str]) -> list[ParsedReading]:
    """A line of the vendor's filesystem_tests."""

    def perf(match: re.Match[str]) -> list[ParsedReading]:
        own = {**params, "buffer": match[1], "direction": match[2]}
        return [
            ParsedReading("storage.file.throughput", float(match[3]), own),
            ParsedReading("storage.file.cpu_load", float(match[4]), own),
        ]

    pattern = r"\|PERFDATA\|bsize:(\d+)\|iomode:(read|write)\|throughput:(\d+\.\d+)MB/S\|cpuload:(\d+\.\d+)%\|"
    return read(output, "filesystem_tests", [rule(pattern, perf), rule(r"^\|")], expected=2)


def fio(output: bytes, params: dict[str, str]) -> list[ParsedReading]:
    """fio's summary in its decimal unit, and mpstat's average beside it."""

    def summary(match: re.Match[str]) -> list[ParsedReading]:
        value = float(match[2]) * _UNITS[match[3]]
        own = {**params, "direction": match[1].lower()}
        step = printed_step(match[2]) * _UNITS[match[3]]
        return [ParsedReading("storage.fio.throughput", value, own, quantum=step, seconds=int(match[4]) / 1000)]

    def failed(match: re.Match[str]) -> list[ParsedReading]:
        raise refusal("fio", f"it failed on the way ({match[0].strip()!r}), so its rate is that of a part")

    rules = [
        rule(r"^boardlab: .*\berr= *[1-9].*|^fio: terminating.*", failed),
        rule(r"^ *(READ|WRITE): bw=\S+ \((\d+(?:\.\d+)?)([kMG]?B)/s\), .*\brun=(\d+)-\d+msec", summary),
        rule(
            r"^fio-|^Starting|^ *(?:read|write|slat|clat|lat|bw|iops|cpu|IO depths|submit|complete|issued|latency)\b"
        ),
        rule(r"^Linux |^[\d:]+ |^Average|^Run status|^Disk stats|^ *\w+: ios=|^boardlab|^ +\||^$"),
    ]
    throughput, *more = read(output, "fio", rules)
    if more:
        raise refusal("fio", "it says rates of reading and of writing, where it was asked for one")
    load = benchmarks_output.parse_mpstat(output)
    return [
        throughput,
        evolve(
            throughput, metric="storage.fio.cpu_load", value=load.percent, quantum=0.0, start=load.start, end=load.end
        ),
    ]


def ospi(output: bytes, size: int = OSPI_BYTES) -> list[ParsedReading]:
    """`time -p dd` of the whole flash, in steps of 10 ms.

    A partial read, as of a smaller flash, has no result.
    """

    def part(match: re.Match[str]) -> list[ParsedReading]:
        raise refusal("dd", f"it did not read all of the {size} bytes ({match[0]!r}): the flash is smaller, or failed")

    def real(match: re.Match[str]) -> list[ParsedReading]:
        seconds = float(match[1])
        mebibytes = size / 2**20
        if seconds <= 0:
            return []
        value = mebibytes / seconds
        params = {"file": f"{mebibytes:g}", "direction": "read"}
        return [ParsedReading("ospi.raw.throughput", value, params, quantum=cut_time(value, seconds, 0.01))]

    rules = [
        rule(r"^real +(\d+\.\d+)$", real),
        rule(rf"^(?:0\+\d+|\d+\+[1-9]\d*) records in|^(?!{size} )\d+ bytes .*copied", part),
        rule(r"^(?:user|sys) |^\d+\+\d+ records|^\d+ bytes"),
    ]
    return read(output, "dd", rules)


def largest_mtd(output: bytes) -> str:
    """The largest partition of /proc/mtd, e.g. "mtd5".

    Raises:
        TestTransientError: no partition.
    """
    partitions = [
        m for line in lines(output) if (m := re.match(r'^(mtd\d+): ([0-9a-f]{8,16}) [0-9a-f]+ "', line.text))
    ]
    if not partitions:
        raise missing("/proc/mtd", "a partition", output.decode("utf-8", "replace").partition("\n")[0])
    return max(partitions, key=lambda match: int(match[2], 16))[1]


def _ospi(bench: Bench) -> Iterator[ParsedReading]:
    device = largest_mtd(bench.run("cat /proc/mtd"))
    command = f"env time -p dd if=/dev/{device} of=/dev/null bs={OSPI_BYTES} count=1 2>&1"
    validity = bus_validity(bench, "ospi", {"ospi.raw.throughput": 1e6 / 2**20})
    yield from bench.read(ospi, command, timeout_s=120, validity=validity)


def _files(bench: Bench, medium: str, filesystem: str) -> Rows:
    params = {"medium": medium, "filesystem": filesystem}
    parser = partial(file_test, params=params)
    validity = bus_validity(bench, medium, {"storage.file.throughput": 1.0})
    bench.run(f"dd if=/dev/urandom of={SOURCE} bs=1M count=10", timeout_s=60)

    def one(size: int) -> Iterator[ParsedReading]:
        make_filesystem(bench, medium, filesystem)
        test = f"-file {MOUNT}/test -buffer_size {size} -file_size 100 -performance"
        for _ in range(WRITES):
            command = f"filesystem_tests -write -src_file {SOURCE} -srcfile_size 10 {test}"
            yield from bench.read(parser, command, timeout_s=300, validity=validity)
        drop_page_cache(bench, medium, filesystem)
        yield from bench.read(parser, f"filesystem_tests -read {test}", timeout_s=300, validity=validity)

    for size in BUFFERS:
        yield Row(partial(one, size), {"buffer": str(size)})


def _fio(bench: Bench, medium: str, filesystem: str) -> Rows:
    seconds = bench.site.seconds
    before = seconds // 12  # the load is that of the time between, as the vendor's
    validity = bus_validity(bench, medium, {"storage.fio.throughput": 1.0}, seconds)
    make_filesystem(bench, medium, filesystem)

    def one(direction: str, size: str) -> Iterator[ParsedReading]:
        params = {"medium": medium, "filesystem": filesystem, "buffer": size}
        command = (
            f"fio --name boardlab --directory={MOUNT} --size=1g --rw={direction} --blocksize={size} "
            f"--ioengine=libaio --iodepth=4 --numjobs=1 --direct=1 --group_reporting --runtime={seconds} --time_based "
            f"--eta=never > {FIO_OUT} 2>&1 & sleep {before}; mpstat -P ALL {seconds - 2 * before} 1; wait $!; "
            f"status=$?; cat {FIO_OUT}; (exit $status)"
        )
        for reading in bench.read(partial(fio, params=params), command, timeout_s=seconds + 120, validity=validity):
            yield evolve(reading, flags=reading.flags | bench.site.doubts)

    for direction in ("write", "read"):
        for size in FIO_SIZES:
            yield Row(partial(one, direction, size), {"direction": direction, "buffer": size})


def _leave(bench: Bench) -> None:
    bench.run(f"rm -f {SOURCE} {FIO_OUT}", check=False)
    unmount(bench)


def _detach(bench: Bench) -> None:
    bench.run(f"rm -f {SOURCE}", check=False)
    unmount_ubi(bench)


def _file_section(medium: str, filesystem: str) -> Section:
    return Section(
        name=f"{medium}-{filesystem}",
        title=f"{medium} {filesystem}: files of 100 MB",
        chapter=CHAPTERS[medium],
        metrics=("storage.file.throughput", "storage.file.cpu_load"),
        rows=partial(_files, medium=medium, filesystem=filesystem),
        restore=_detach if filesystem == "ubifs" else _leave,
        needs=(*scratch_needs(medium, filesystem), needs.tool("filesystem_tests", "ltp-ddt")),
        command="filesystem_tests -write -buffer_size B -file_size 100 -performance",
        overwrites=medium,
        fits=has_medium(medium),
        duration_s=120,
        params={"medium": medium, "filesystem": filesystem},
        once=FLASH_WEAR,
    )


def _fio_section(medium: str) -> Section:
    return Section(
        name=f"{medium}-fio",
        title=f"{medium} ext4: fio 1G",
        chapter=CHAPTERS[medium],
        metrics=("storage.fio.throughput", "storage.fio.cpu_load"),
        rows=partial(_fio, medium=medium, filesystem="ext4"),
        restore=_leave,
        needs=(*scratch_needs(medium, "ext4"), needs.tool("fio"), needs.tool("mpstat", "sysstat")),
        command="fio --size=1g --rw=write --blocksize=4m --ioengine=libaio --iodepth=4 --direct=1 & mpstat -P ALL 55 1",
        overwrites=medium,
        fits=has_medium(medium),
        duration_s=500,
        params={"medium": medium, "filesystem": "ext4"},
        once="fio writes for four minutes, many gigabytes, and flash wears out",
    )


def dd_file(output: bytes, params: dict[str, str]) -> list[ParsedReading]:
    """dd's summary, whole files only."""

    def summary(match: re.Match[str]) -> list[ParsedReading]:
        size, seconds = int(match[1]), float(match[2])
        if size != DD_FILE_BYTES or seconds <= 0:
            return []
        return [ParsedReading("storage.dd.throughput", size / seconds / 1e6, params)]

    return read(output, "dd", [rule(DD_SUMMARY, summary), rule(r"^\d+\+\d+ records")])


def _dd_files(bench: Bench, medium: str, filesystem: str) -> Rows:
    validity = bus_validity(bench, medium, {"storage.dd.throughput": 1.0})

    def one(size: int) -> Iterator[ParsedReading]:
        params = {"medium": medium, "filesystem": filesystem, "buffer": str(size)}
        write, back = (partial(dd_file, params={**params, "direction": way}) for way in ("write", "read"))
        make_filesystem(bench, medium, filesystem)
        for _ in range(WRITES):
            command = f"dd if=/dev/zero of={DD_FILE} bs={size} count={DD_FILE_BYTES // size} conv=fsync 2>&1"
            yield from bench.read(write, command, timeout_s=300, validity=validity)
        drop_page_cache(bench, medium, filesystem)
        yield from bench.read(back, f"dd if={DD_FILE} of=/dev/null bs={size} 2>&1", timeout_s=300, validity=validity)

    for size in BUFFERS:
        yield Row(partial(one, size), {"buffer": str(size)})


def _dd_section(medium: str, filesystem: str) -> Section:
    params = {"medium": medium, "filesystem": filesystem}
    return Section(
        name=f"{medium}-{filesystem}-dd",
        title=f"{medium} {filesystem}: files of 100 MB by dd",
        chapter=CHAPTERS[medium],
        metrics=("storage.dd.throughput",),
        rows=partial(_dd_files, medium=medium, filesystem=filesystem),
        restore=unmount,
        needs=(*scratch_needs(medium, filesystem), needs.dd_that_says_its_time()),
        command="dd if=/dev/zero of=FILE bs=B count=N conv=fsync",
        overwrites=medium,
        fits=has_medium(medium),
        duration_s=120,
        params=params,
        once=FLASH_WEAR,
    )


SECTIONS = (
    Section(
        name="ospi-raw",
        title="OSPI raw read",
        chapter="Linux OSPI Flash Driver",
        metrics=("ospi.raw.throughput",),
        rows=whole(_ospi),
        needs=(needs.path("/proc/mtd", "MTD", "enable CONFIG_MTD and the flash's driver"), needs.program_time("-p")),
        command="time -p dd if=/dev/mtdN of=/dev/null bs=52428800 count=1",
        fits=has_medium("ospi"),
        duration_s=5,
    ),
    *(
        section
        for medium in ("emmc", "sd")
        for section in (
            _fio_section(medium),
            *(_file_section(medium, name) for name in ("ext4", "ext3", "ext2", "vfat")),
        )
    ),
    _file_section("nand", "ubifs"),
    *(_dd_section(medium, name) for medium in ("emmc", "sd") for name in ("ext4", "ext3", "ext2", "vfat")),
)
