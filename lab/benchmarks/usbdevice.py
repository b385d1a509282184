"""The board as a USB RAM disk, tested by the tester's dd."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from lab.benchmarks import needs
from lab.benchmarks.output import DD_SUMMARY, read, rule
from lab.benchmarks.section import (
    Bench,
    HarmlessStatus,
    ParsedReading,
    Section,
    Validity,
    has_link,
    link_mbit_s,
    whole,
)

DISK = "/run/boardlab.disk"  # on the board: in memory, and nobody but root makes files there
BLOCKS = 150  # of 1 MiB asked for; the disk holds 16 MiB, so dd ends there
MOUNT = "/mnt/boardlab-usb"
FULL = "No space left on device"


def parse(output: bytes, direction: str) -> list[ParsedReading]:
    """dd's summary as bytes over seconds.

    Its own rate has no decimals from 100 MB/s on.
    """

    def summary(match: re.Match[str]) -> list[ParsedReading]:
        rate = float(match[1]) / float(match[2]) / 1e6 if float(match[2]) else 0.0
        params = {"blocks": str(BLOCKS), "direction": direction}
        return [ParsedReading("usb.device.throughput", rate, params)] if rate else []

    rules = [
        rule(DD_SUMMARY, summary),
        rule(rf"^\d+\+\d+ records|{FULL}|^(?:real|user|sys)\b"),
    ]
    return read(output, "dd", rules)


def _measure(bench: Bench) -> Iterator[ParsedReading]:
    bench.run(
        f"dd if=/dev/zero of={DISK} bs=1M count=16 && losetup /dev/loop0 {DISK} && mkfs.vfat /dev/loop0", timeout_s=60
    )
    bench.run("modprobe g_mass_storage file=/dev/loop0 stall=0 removable=1")
    disk = bench.site.usb_disk
    bench.tester(f"udevadm wait --timeout=20 {disk} && mkdir -p {MOUNT} && mount {disk} {MOUNT}", timeout_s=60)
    file = f"{MOUNT}/{BLOCKS}mb"
    write = f"echo 3 > /proc/sys/vm/drop_caches; dd of={file} if=/dev/zero bs=1M count={BLOCKS} oflag=direct 2>&1"
    full = HarmlessStatus((1,), "the disk is smaller than what dd is asked to write, as in the guide", FULL)
    limits = {"usb.device.throughput": link_mbit_s(bench.board, "usb0") / 8}
    validity = Validity(0, limits, "usb0", (full,))
    yield from bench.read(partial(parse, direction="write"), write, timeout_s=120, on_tester=True, validity=validity)
    bench.tester(f"umount {MOUNT} && mount {disk} {MOUNT}", timeout_s=60)
    reading = f"dd if={file} of=/dev/zero bs=1M count={BLOCKS} 2>&1"
    yield from bench.read(
        partial(parse, direction="read"), reading, timeout_s=120, on_tester=True, validity=Validity(0, limits, "usb0")
    )


def _restore(bench: Bench) -> None:
    bench.tester(f"umount {MOUNT}; rmdir {MOUNT}", check=False)
    bench.run(f"modprobe -r g_mass_storage; losetup -d /dev/loop0; rm -f {DISK}", check=False)


SECTION = Section(
    name="usb-device",
    title="USB device, mass storage",
    chapter="USB Driver",
    metrics=("usb.device.throughput",),
    rows=whole(_measure),
    restore=_restore,
    needs=(
        needs.tool("losetup"),
        needs.tool("mkfs.vfat", "dosfstools"),
        needs.tool("modprobe"),
        needs.tool_of_tester("udevadm", "udev"),
    ),
    command="tester: dd of=/media/test/150mb if=/dev/zero bs=1M count=150 oflag=direct",
    fits=has_link("usb0"),
    duration_s=30,
)
