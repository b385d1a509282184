"""Speed of provisioning a card and an eMMC, beside `dd` and bmaptool.

    uv run python bench/provision.py [--folder DIR] [--mib 512] [--times 3] [--rate 90]
    uv run python bench/provision.py --emmc [--mib 128] [--times 3]
    uv run python bench/provision.py --linux [--mib 128] [--times 3]
    uv run python bench/provision.py --sparse

The target is a file in DIR (default: the temporary folder), which stands for a card: written past the page cache and synced, as dd does
with oflag=direct conv=fsync, and no faster than RATE MB/s for all of them (bench/slowcard.c; a UHS-I card reaches 90, 0: as fast as
the disk is). The ways take turns, so that all meet the same machine; compared are the fastest writes of each. First an image is written
whole, by `dd`, `bmaptool copy --nobmap` and ours; then only what its block map names, every second MiB, by `bmaptool copy --bmap` and ours.
bmaptool is Debian's `bmap-tools`; without it only `dd` is compared.
Aim: at least 90 % of the rate of the fastest of the others.

`--emmc` writes the eMMC of the QEMU board (an NVMe disk) by the board's own U-Boot over TFTP. There is no `dd` in U-Boot: its own
`tftpboot` and `nvme write` are what the same target reaches alone, and their share of the time is compared, in the same write, since TFTP
to an emulated board takes some times longer in one minute than in the next. What a real eMMC takes does not show on QEMU.

`--linux` writes the same disk by the board's own Linux, in turns with `wget | dd` on the board, which fetches the same image from the same
server: the median of the turns' ratios is compared, since the emulated board is faster in one minute than in the next.

`--sparse` provisions an image of 8 GiB with 64 MiB of data by its block map: the writer and the provisioning process together stay below
100 MiB. Exit status 3 when an aim is missed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from common import MISSED, print_table

from lab.provision.release import Content, Image
from lab.provision.writer import Plan, WriteTarget
from lab.provision.writers.sd_mux import CardWriter, Disk
from lab.terminal import echo

MIB: Final = 1 << 20
AIM: Final = 0.9
MEMORY_MIB: Final = 100
SPARSE_BYTES: Final = 8 << 30
BLOCK: Final = 4096
RUN_BLOCKS: Final = 256  # 1 MiB of data, then a gap
NO_CHECKSUM: Final = "0" * 64  # of the map itself, in which its own place counts so
OURS: Final = "lab provision"


def slowed(folder: Path, rate_mb: float) -> None:
    """Every program that is started from now on writes no faster than a card."""
    if rate_mb:
        library = folder / "slowcard.so"
        source = Path(__file__).with_name("slowcard.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        os.environ |= {"LD_PRELOAD": str(library), "SLOWCARD_BYTES_S": str(rate_mb * 1e6)}


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def there(disk: Disk) -> Iterator[Disk]:
    yield disk


def planned(content: Content, target: Path, size: int) -> tuple[CardWriter, Plan]:
    disk = Disk(str(target), size)
    writer = CardWriter("sd-mux", lambda: there(disk))
    return writer, writer.plan(content, WriteTarget("bench", "any", "sd"))


def dd(image: Path, target: Path) -> None:
    words = ["dd", f"if={image}", f"of={target}", "bs=4M", "oflag=direct", "conv=fsync,notrunc", "status=none"]
    subprocess.run(words, check=True)


def bmaptool(image: Path, bmap: Path | None, target: Path) -> None:
    mapped = ["--bmap", bmap] if bmap else ["--nobmap"]
    subprocess.run(["bmaptool", "-q", "copy", *mapped, image, target], check=True)


def fastest(works: dict[str, Callable[[], None]], times: int) -> dict[str, float]:
    """Seconds of the fastest of so many turns, by name."""
    found = dict.fromkeys(works, float("inf"))
    for _ in range(times):
        for name, work in works.items():
            began = time.monotonic()
            work()
            found[name] = min(found[name], time.monotonic() - began)
    return found


def rates(folder: Path, mib: int, times: int) -> bool:
    image, target = folder / "image.wic", folder / "target.img"
    with image.open("wb") as file:
        for _ in range(mib):
            file.write(os.urandom(MIB))
    bmap = folder / "image.wic.bmap"
    bmap.write_text(block_map(image, range(0, mib * MIB // BLOCK, 2 * RUN_BLOCKS), mib * MIB), encoding="utf-8")
    return all([beside(image, None, target, mib, mib, times), beside(image, bmap, target, mib, -(-mib // 2), times)])


def beside(image: Path, bmap: Path | None, target: Path, mib: int, written: int, times: int) -> bool:
    """Write an image of `mib` MiB, of which `written` are mapped, in turns; whether ours is fast enough."""
    target.write_bytes(b"")
    os.truncate(target, mib * MIB)
    content = Content(Image(source=str(image), sha256=sha256(image), size=mib * MIB, bmap=str(bmap or "")))
    writer, plan = planned(content, target, mib * MIB)
    works: dict[str, Callable[[], None]] = {OURS: lambda: writer.write(plan, lambda _progress: None)}
    if bmap is None:
        works["dd"] = lambda: dd(image, target)
    if shutil.which("bmaptool"):
        works["bmaptool"] = lambda: bmaptool(image, bmap, target)
    seconds = fastest(works, times)
    verified = writer.verify(plan)
    rows = [[name, f"{each:.2f}", f"{written / each:.0f}"] for name, each in seconds.items()]
    echo(f"{written} MiB {'by its block map' if bmap else 'of a whole image'}:")
    print_table(("way", "s", "MiB/s"), rows)
    others = [each for name, each in seconds.items() if name != OURS]
    share = min(others, default=seconds[OURS]) / seconds[OURS]
    echo(f"{share:.0%} of the fastest of the others (aim: {AIM:.0%}); read back: {verified.bytes == written * MIB}")
    return share >= AIM and verified.bytes == written * MIB


def block_map(image: Path, runs: Sequence[int], size: int) -> str:
    ranges = []
    with image.open("rb") as file:
        for first in runs:
            file.seek(first * BLOCK)
            ranges.append(
                f'<Range chksum="{hashlib.sha256(file.read(RUN_BLOCKS * BLOCK)).hexdigest()}"> {first}-{first + RUN_BLOCKS - 1} </Range>'
            )
    text = (
        f'<?xml version="1.0" ?>\n<bmap version="2.0">\n<ImageSize> {size} </ImageSize>\n<BlockSize> {BLOCK} </BlockSize>\n'
        f"<BlocksCount> {size // BLOCK} </BlocksCount>\n<MappedBlocksCount> {len(runs) * RUN_BLOCKS} </MappedBlocksCount>\n"
        f"<ChecksumType> sha256 </ChecksumType>\n<BmapFileChecksum> {NO_CHECKSUM} </BmapFileChecksum>\n<BlockMap>\n{chr(10).join(ranges)}\n</BlockMap>\n</bmap>\n"
    )
    return text.replace(NO_CHECKSUM, hashlib.sha256(text.encode()).hexdigest())


def sparse(folder: Path) -> bool:
    image, target = folder / "sparse.wic", folder / "target.img"
    runs = [number * (SPARSE_BYTES // BLOCK // 64) for number in range(64)]
    with image.open("wb") as file:
        file.truncate(SPARSE_BYTES)
        for first in runs:
            file.seek(first * BLOCK)
            file.write(os.urandom(RUN_BLOCKS * BLOCK))
    bmap = folder / "sparse.wic.bmap"
    bmap.write_text(block_map(image, runs, SPARSE_BYTES), encoding="utf-8")
    target.write_bytes(b"")
    os.truncate(target, SPARSE_BYTES)
    content = Content(Image(source=str(image), sha256=sha256(image), size=SPARSE_BYTES, bmap=str(bmap)))
    writer, plan = planned(content, target, SPARSE_BYTES)
    began = time.monotonic()
    writer.write(plan, lambda _progress: None)
    verified = writer.verify(plan)
    taken_s = time.monotonic() - began
    used_kib = sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    echo(
        f"{SPARSE_BYTES >> 30} GiB with {verified.bytes // MIB} MiB of data: {taken_s:.1f} s, at most {used_kib / 1024:.0f} MiB of memory "
        f"(aim: {MEMORY_MIB} MiB); the target has {target.stat().st_blocks * 512 // MIB} MiB"
    )
    return used_kib / 1024 <= MEMORY_MIB


def main() -> int:
    parser = argparse.ArgumentParser(description="How fast a medium is provisioned, and with how much memory.")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--mib", type=int, help="default: 512, and 128 with --emmc and --linux")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--rate", type=float, default=90.0)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--sparse", action="store_true")
    kind.add_argument("--emmc", action="store_true")
    kind.add_argument("--linux", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder, prefix="boardlab-provision-") as name:
        folder = Path(name)
        if given.sparse:
            is_met = sparse(folder)
        elif given.emmc or given.linux:
            from provision_emmc import emmc, linux  # noqa: PLC0415 - labgrid's memory is not the writer's

            is_met = (emmc if given.emmc else linux)(folder, given.mib or 128, given.times, AIM)
        else:
            slowed(folder, given.rate)
            is_met = rates(folder, given.mib or 512, given.times)
    return 0 if is_met else MISSED


if __name__ == "__main__":
    sys.exit(main())
