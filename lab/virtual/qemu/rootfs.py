"""The root file system of QEMU boards, and its busybox."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Final

from lab.errors import LabStableError
from lab.virtual.images.filetree import Directory, RegularFile, Symlink, Tree

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
        more["etc/os-release"] = RegularFile(f"ID=boardlab\nBUILD_ID={build_id}\n".encode())
    return {
        **{name: Directory() for name in ("dev", "mnt", "proc", "run", "sys", "tmp")},
        "root": Directory(0o700),
        "init": Symlink("bin/busybox"),
        "bin/busybox": RegularFile(busybox, 0o755),
        "bin/sh": Symlink("busybox"),
        "etc/hostname": RegularFile(f"{hostname}\n".encode()),
        "etc/inittab": RegularFile(data("inittab").replace(b"ttyAMA0", console.encode())),
        "etc/init.d/sysinit": RegularFile(data("sysinit"), 0o755),
        "etc/issue": RegularFile(b""),
        "etc/medium": RegularFile(f"{medium}\n".encode()),
        "etc/passwd": RegularFile(b"root::0:0:root:/root:/bin/sh\n"),
        "etc/group": RegularFile(b"root:x:0:\n"),
        "etc/shrc": RegularFile(data("shrc")),
        "etc/profile": RegularFile(b"export PS1='root@\\h:\\w# '\n"),
        **more,
    }


def drivers(modules: Mapping[str, bytes], network: Mapping[str, bytes]) -> dict[str, RegularFile]:
    """Files that load drivers that a boot does not need.

    See `tree`.
    """
    found: dict[str, RegularFile] = {}
    if modules:
        found |= _modules(MODULES, modules)
        found["etc/init.d/load-media"] = RegularFile(data("load-media"), 0o755)
    if network:
        found |= _modules(NETWORK, network)
        found |= {
            f"etc/{name}": RegularFile(data(name.rpartition("/")[2]), 0o755) for name in ("init.d/network", "udhcpc")
        }
    return found


def with_usr(modules: Mapping[str, bytes], device: str, triplet: str, loader: str) -> Tree:
    """Addition to a root file system with /usr on a partition.

    The partition has all programs of `lab.virtual.qemu.benchtools`.

    Args:
        modules: drivers in this order, file name -> content, which /etc/init.d/bench-tools loads at each boot.
        device: the partition, as Linux names it.
        triplet: of the libraries' folder.
        loader: of programs, as their interpreter's path in /lib.
    """
    path = ("/usr/sbin", "/usr/bin", "/usr/lib/lmbench/bin", "/sbin", "/bin")
    # BusyBox's shell prefers its own commands to those in the PATH.
    shell = "[ ! -x /usr/bin/bash ] || exec /usr/bin/bash --norc --noediting"
    profile = f"export PATH={':'.join(path)}\nexport PS1='root@\\h:\\w# '\n{shell}\n"
    return {
        **_modules(TOOLS, modules),
        "usr": Directory(),
        **{f"lib/{name}": Symlink(f"../usr/lib/{name}") for name in (triplet, loader)},
        "etc/usr": RegularFile(f"{device}\n".encode()),
        "etc/init.d/bench-tools": RegularFile(data("bench-tools"), 0o755),
        "etc/profile": RegularFile(profile.encode()),
    }


def _modules(folder: str, modules: Mapping[str, bytes]) -> dict[str, RegularFile]:
    return {
        f"{folder}/{number:02}-{name}": RegularFile(content) for number, (name, content) in enumerate(modules.items())
    }


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
