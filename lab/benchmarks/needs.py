"""Preflight checks of a section's needs, each with its remedy."""

from __future__ import annotations

import re
from collections.abc import Callable

from lab.benchmarks.section import Bench, Need


def _need(name: str, holds: Callable[[Bench], bool], problem: str) -> Need:
    return Need(name, lambda bench: "" if holds(bench) else problem)


def tool(name: str, package: str = "") -> Need:
    """A program on the board."""
    problem = f"the board has no program {name}; install {package or name}, or put it on the PATH"
    return _need(f"tool {name}", lambda bench: bench.status(f"command -v {name}") == 0, problem)


def all_cpus_online() -> Need:
    """Require that all present processors are online.

    A program with a thread on each would give wrong numbers to the processors after an offline one.
    """

    def check(bench: Bench) -> str:
        folder = "/sys/devices/system/cpu"
        present, online = (bench.run(f"cat {folder}/{name}", check=False).strip() for name in ("present", "online"))
        if present == online or not all(re.fullmatch(rb"[\d,-]+", text) for text in (present, online)):
            return ""
        return (
            f"of processors {present.decode('utf-8', 'replace')} only {online.decode('utf-8', 'replace')} are online; "
            f"take them online ({folder}/cpuN/online), or boot with nr_cpus= instead of maxcpus="
        )

    return Need("processors online", check)


def program_time(option: str) -> Need:
    """The program `time` with an option.

    To a shell like bash `time` is also a keyword, which `command -v` finds.
    """

    problem = f"the board has no program `time` that knows {option} (the shell's keyword is none); install time"
    return _need("tool time", lambda bench: bench.status(f"env time {option} true > /dev/null 2>&1") == 0, problem)


def display() -> Need:
    """A connected display, or a connector forced on.

    `video=` on the kernel's command line forces it.
    """
    return _need(
        "display",
        lambda bench: b"connected" in bench.run("cat /sys/class/drm/*/status 2> /dev/null", check=False).split(),
        "no display is connected (/sys/class/drm/*/status); connect one, or force its connector on with "
        "video=CONNECTOR:e on the kernel's command line",
    )


def dd_that_says_its_time() -> Need:
    """A dd that prints its duration."""
    return _need(
        "tool dd",
        lambda bench: b"copied" in bench.run("dd if=/dev/zero of=/dev/null bs=1 count=1 2>&1", check=False),
        "the board's dd does not say how long it took (BusyBox without its third status line); install coreutils",
    )


def tool_of_tester(name: str, package: str = "") -> Need:
    """A program on the tester."""
    problem = f"the tester has no program {name}; install {package or name} there"
    return _need(
        f"tester tool {name}", lambda bench: bool(bench.tester(f"command -v {name}", check=False).strip()), problem
    )


def path(name: str, what: str, hint: str) -> Need:
    """Require a file, folder or device on the board.

    Args:
        name: its path; `{site.FIELD}` stands for a field of the lab's site.
        what: what it is, for the preflight's name and messages.
        hint: the remedy if it is missing.
    """

    def check(bench: Bench) -> str:
        file = name.format(site=bench.site)
        return "" if bench.status(f"test -e {file}") == 0 else f"the board has no {file} ({what}); {hint}"

    return Need(what, check)


def scratch(medium: str) -> Need:
    """An overwritable partition or range, named by the environment."""
    return _need(
        f"scratch {medium}",
        lambda bench: medium in bench.site.scratch,
        f"the env names nothing that may be overwritten for {medium}; add `benchmarks: {{scratch: {{{medium}: "
        "...}}` to the target's options",
    )


def unused_partition(medium: str) -> Need:
    """Require an existing scratch partition other than the root file system."""

    def check(bench: Bench) -> str:
        device = bench.site.scratch[medium]
        if bench.status(f"test -e {device}") != 0:
            return f"{device} is not there; look at the medium, or mend `scratch` in the env"
        mounts = bench.run("cat /proc/self/mountinfo")
        root = re.search(rb"^\d+ \d+ (\d+:\d+) \S+ / ", mounts, re.MULTILINE)
        name = device.rpartition("/")[2]
        number = bench.run(f"cat /sys/class/block/{name}/dev 2>/dev/null", check=False).strip()
        if root and number == root[1]:  # compared by device number: /proc/mounts may call the root /dev/root
            return f"{device} is the root file system; name another partition as `scratch` in the env"
        return ""

    return Need(f"scratch {medium} usable", check)


def filesystem(kind: str) -> Need:
    """A file system of the kernel, built in or as module."""
    return _need(
        f"kernel {kind}",
        lambda bench: bench.status(f"grep -qw {kind} /proc/filesystems || modprobe -q {kind}") == 0,
        f"the kernel has no {kind}; configure it (CONFIG_{kind.upper()}_FS or its module)",
    )


def uboot_time() -> Need:
    """U-Boot's command `time`.

    `help` of an existing command also ends with status 1 (cmd_usage of common/command.c).
    """
    return _need(
        "U-Boot time",
        lambda bench: b"time - " in bench.run("help time", check=False),
        "U-Boot has no command `time`; build it with CONFIG_CMD_TIME=y. Reads can be timed without it: sections "
        "uboot-read, uboot-tftp",
    )


def uboot_devices() -> Need:
    """The environment's U-Boot names of the media."""

    def check(bench: Bench) -> str:
        if not bench.site.uboot:
            return (
                "the env does not say how U-Boot calls the board's media; add e.g. `benchmarks: {uboot: {sd: mmc 0, "
                "ospi: sf}}` to the target's options"
            )
        unknown = [medium for medium in bench.site.uboot if medium not in bench.board.media]
        if not unknown:
            return ""
        return (
            f"the env's benchmarks.uboot names {', '.join(unknown)}, and {bench.board.title} has "
            f"{', '.join(bench.board.media)}; name media of the board type there"
        )

    return Need("U-Boot devices", check)


def tftp_file() -> Need:
    """A file for TFTP by U-Boot, named by the environment."""
    return _need(
        "TFTP file",
        lambda bench: bool(bench.site.tftp),
        "the env names no file for U-Boot to load; put one of some 16 MiB into the folder of a TFTP server that the "
        "board reaches, and add `benchmarks: {tftp: FILE}` (or SERVER:FILE) to the target's options",
    )


def link_speed() -> Need:
    """The link's speed is the board type's."""

    def check(bench: Bench) -> str:
        name = bench.site.interface
        nominal = next((link.mbit_s for link in bench.board.links if link.name == name), None)
        text = bench.run(f"cat /sys/class/net/{name}/speed", check=False).strip()
        if not re.fullmatch(rb"\d+", text):
            return f"{name} has no link; is its cable plugged in, and the tester's port up?"
        if nominal is not None and float(text) != nominal:
            return (
                f"{name} runs at {text.decode()} Mbit/s, {bench.board.title} has it at {nominal:g}: look at the cable, "
                "the tester's port, and `ethtool` for what was negotiated"
            )
        return ""

    return Need("link speed", check)


def private_link() -> Need:
    """No NFS uses the measured link."""

    def check(bench: Bench) -> str:
        mounts = bench.run("cat /proc/mounts").decode("utf-8", "replace")
        servers = re.findall(r"^\S+ \S+ nfs\d? .*?\baddr=([\w.:]+)", mounts, re.MULTILINE)
        here = bench.site.interface
        for server in servers:
            route = bench.run(f"ip route get {server}", check=False).decode("utf-8", "replace")
            if server == bench.site.tester or re.search(rf"\bdev {re.escape(here)}\b", route):
                return (
                    f"the board has mounted NFS from {server} over {here}, the link to be measured; boot from another "
                    "medium, or use another interface"
                )
        return ""

    return Need("private link", check)


def netperf_options(on_tester: bool) -> Need:
    """A netperf with `-b` and `-w`, which some builds silently ignore."""
    where = "tester" if on_tester else "board"

    def check(bench: Bench) -> str:
        command = "netperf -b 1 -w 10 -V 2>&1"
        output = bench.tester(command, check=False) if on_tester else bench.run(command, check=False)
        line = next((text for text in output.decode("utf-8", "replace").splitlines() if "not compiled in" in text), "")
        if line:
            return (
                f"the {where}'s netperf ignores -b and -w ({line.strip()}): it would send without a limit. Install "
                "one built with --enable-intervals --enable-burst"
            )
        return ""

    return Need(f"netperf intervals on the {where}", check)
