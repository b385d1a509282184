"""The root file system of QEMU boards, and its busybox."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Final

from lab.errors import LabStableError
from lab.virtual.images.filetree import File, Folder, Link, Tree

MODULES: Final = "lib/modules/media"  # what /etc/init.d/load-media loads, in the order of their names
TOOLS: Final = "lib/modules/tools"  # what /etc/init.d/bench-tools loads, likewise
NETWORK: Final = "lib/modules/network"  # what /etc/init.d/network loads, likewise


def tree(
    busybox: bytes,
    *,
    hostname: str,
    console: str,
    medium: str,
    modules: Mapping[str, bytes] | None = None,
    network: Mapping[str, bytes] | None = None,
    build_id: str = "",
) -> Tree:
    """The root file system of a medium; /etc/medium says which.

    Args:
        busybox: the program (`lab.virtual.qemu.rootfs`).
        console: the kernel's name of the UART where one logs in.
        modules: drivers of the media and what they need, in this order; /etc/init.d/load-media loads them.
        network: those of the network; /etc/init.d/network loads them and the media's, and asks DHCP.
        build_id: of /etc/os-release; empty: there is none.
    """
    more = drivers(modules or {}, network or {})
    if build_id:
        more["etc/os-release"] = File(f"ID=boardlab\nBUILD_ID={build_id}\n".encode())
    return {
        **{name: Folder() for name in ("dev", "mnt", "proc", "run", "sys", "tmp")},
        "root": Folder(0o700),
        "init": Link("bin/busybox"),
        "bin/busybox": File(busybox, 0o755),
        "bin/sh": Link("busybox"),
        "etc/hostname": File(f"{hostname}\n".encode()),
        "etc/inittab": File(data("inittab").replace(b"ttyAMA0", console.encode())),
        "etc/init.d/sysinit": File(data("sysinit"), 0o755),
        "etc/issue": File(b""),
        "etc/medium": File(f"{medium}\n".encode()),
        "etc/passwd": File(b"root::0:0:root:/root:/bin/sh\n"),
        "etc/group": File(b"root:x:0:\n"),
        "etc/shrc": File(data("shrc")),
        "etc/profile": File(b"export PS1='root@\\h:\\w# '\n"),
        **more,
    }


def drivers(modules: Mapping[str, bytes], network: Mapping[str, bytes]) -> dict[str, File]:
    """Files that load drivers that a boot does not need.

    See `tree`.
    """
    found: dict[str, File] = {}
    if modules:
        found |= _modules(MODULES, modules)
        found["etc/init.d/load-media"] = File(data("load-media"), 0o755)
    if network:
        found |= _modules(NETWORK, network)
        found |= {f"etc/{name}": File(data(name.rpartition("/")[2]), 0o755) for name in ("init.d/network", "udhcpc")}
    return found


def with_usr(modules: Mapping[str, bytes], device: str, triplet: str, loader: str) -> Tree:
    """Addition to a root file system with /usr on a partition.

    The partition has all programs of `lab.virtual.qemu.benchtools`.

    Args:
        modules: drivers in this order, file name -> content, which /etc/init.d/bench-tools loads at each boot.
        device: the partition, as Linux names it.
        triplet: of the libraries' folder. loader: of programs, as their interpreter's path in /lib.
    """
    path = ("/usr/sbin", "/usr/bin", "/usr/lib/lmbench/bin", "/sbin", "/bin")
    # BusyBox's shell prefers its own commands to those in the PATH.
    shell = "[ ! -x /usr/bin/bash ] || exec /usr/bin/bash --norc --noediting"
    profile = f"export PATH={':'.join(path)}\nexport PS1='root@\\h:\\w# '\n{shell}\n"
    return {
        **_modules(TOOLS, modules),
        "usr": Folder(),
        **{f"lib/{name}": Link(f"../usr/lib/{name}") for name in (triplet, loader)},
        "etc/usr": File(f"{device}\n".encode()),
        "etc/init.d/bench-tools": File(data("bench-tools"), 0o755),
        "etc/profile": File(profile.encode()),
    }


def _modules(folder: str, modules: Mapping[str, bytes]) -> dict[str, File]:
    return {f"{folder}/{number:02}-{name}": File(content) for number, (name, content) in enumerate(modules.items())}


def data(name: str) -> bytes:
    """A file of lab/virtual/qemu/data."""
    return (resources.files("lab.virtual.qemu") / "data" / name).read_bytes()


# --- Debian's busybox, made to hold its tongue at the prompt ---


CURSOR_QUERY: Final = b"\x1b[6n"


def quiet(program: bytes) -> bytes:
    """Remove the cursor query behind each prompt from busybox.

    Debian builds busybox with FEATURE_EDITING_ASK_TERMINAL. Its line editor (libbb/lineedit.c, ask_terminal) then
    prints `ESC [ 6 n` after a prompt, whatever TERM says and unless somebody has typed ahead. A reader that expects a
    prompt at the end of the output, as tbot does, waits for ever; and no setting at run time turns it off but one that
    turns the echo off too. So the text is made an empty string.

    It may also be the end of the longer text with which `resize` asks how large the terminal is; where that has a copy
    of its own, it stays.

    Raises:
        LabStableError: the text is not there exactly once.
    """
    alone = b"\0" + CURSOR_QUERY + b"\0"
    if program.count(alone) == 1:
        return program.replace(alone, alone.replace(CURSOR_QUERY, b"\0" + CURSOR_QUERY[1:]))
    found = program.count(CURSOR_QUERY + b"\0")
    if found != 1 or program.count(CURSOR_QUERY) != 1:
        raise LabStableError(
            f"Debian's busybox has the text {CURSOR_QUERY!r} {program.count(CURSOR_QUERY)} times instead of once at the end of "
            "a string; look at ask_terminal in libbb/lineedit.c of its source, then at lab/virtual/qemu/rootfs.py",
            failure="image_build",
        )
    return program.replace(CURSOR_QUERY, b"\0" + CURSOR_QUERY[1:])
