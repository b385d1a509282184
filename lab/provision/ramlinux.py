"""A Linux in a board's memory, for writing every medium.

U-Boot  <── TFTP   kernel, device tree, initramfs      each with its digest
        booti (arm64: Documentation/arch/arm64/booting.rst) or bootz (arm: Documentation/arch/arm/booting.rst)
Linux   rdinit=/init ──> a shell on the console        nothing of it lies on a medium
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from typing import Final

from attrs import define, field, frozen

from lab.errors import BoardlabError, BoardTransientError, ConfigurationError
from lab.provision.errors import RecoveryFailedError
from lab.provision.image import read_whole
from lab.provision.release import RecoveryStage

PROMPT: Final = r"root@ram-linux:[^ ]*# "  # of the one that `lab release ram-linux` makes (lab.virtual.ramlinux)
MOST_BYTES: Final = 512 * 1024 * 1024  # of a file, unpacked
_ALIGN: Final = 2 << 20  # where an arm64 kernel may lie without being moved
_ARM64: Final = (56, b"ARM\x64")
_ARM: Final = (36, struct.pack("<I", 0x016F2818))
_IMAGE_SIZE_OFFSET: Final = 16
_ZIMAGE_ROOM: Final = 4  # a zImage unpacks itself in front of where it lies, to about so many times its size
_KERNEL_LINE: Final = r"\s*\[ *\d+\.\d+\]"
_LINE_BYTES: Final = 4096
_REFUSED: Final = re.compile(
    r"Bad Linux ARM64 Image magic|Bad Linux ARM zImage magic|Unknown command 'boot[iz]'|Wrong Ramdisk Image Format"
    r"|Could not find a valid device tree|Did not find a cmdline Flattened Device Tree|does not fit|Ramdisk image is "
    r"corrupt"
)
_AGAIN: Final = re.compile(r"(?<!=)U-Boot (?:SPL )?20\d\d\.\d\d")


@frozen
class RamLinux:
    """Files of a Linux in memory, unpacked.

    Attributes:
        device_tree: empty: U-Boot's own.
        command: U-Boot's, "booti" or "bootz".
    """

    kernel: bytes = field(repr=False)
    initramfs: bytes = field(repr=False)
    device_tree: bytes = field(default=b"", repr=False)
    command: str = "booti"

    @property
    def kernel_room(self) -> int:
        """Bytes that the loaded kernel takes, with the area that it clears."""
        if self.command == "bootz":
            return len(self.kernel)
        return max(len(self.kernel), int.from_bytes(self.kernel[_IMAGE_SIZE_OFFSET:][:8], "little"))


@frozen
class Placed:
    """A file and its load address.

    name: of the variable in messages, e.g. "kernel".
    """

    name: str
    address: int
    data: bytes = field(repr=False)


def read(stages: Sequence[RecoveryStage]) -> RamLinux:
    """Read and check the files of a release's `recovery: ram:`.

    An environment may have such files, too.

    An initramfs has `.cpio`, `initramfs` or `initrd` in its name, a device tree ends in `.dtb`; what is left is the
    kernel.

    Raises:
        ConfigurationError: one is missing, or the kernel is none that U-Boot starts as it is.
        BoardlabError: one cannot be read (see `lab.provision.image.read_whole`).
    """
    files: dict[str, RecoveryStage] = {}
    for stage in stages:
        files.setdefault(_kind(stage.name), stage)
    if missing := [kind for kind in ("kernel", "initramfs") if kind not in files]:
        raise ConfigurationError(
            f"a Linux in memory takes a kernel and an initramfs, and there is no {' and no '.join(missing)}: add it "
            "to `recovery: ram:` of the release file, or to `ram` of the LinuxWriterDriver; `lab release ram-linux` "
            "makes an initramfs (docs/releases.md)"
        )
    # The kernel unpacks an initramfs, and a smaller one is loaded sooner.
    data = {kind: read_whole(stage, MOST_BYTES, unpack=kind != "initramfs") for kind, stage in files.items()}
    kernel = data["kernel"]
    for command, (offset, magic) in {"booti": _ARM64, "bootz": _ARM}.items():
        if kernel[offset : offset + len(magic)] == magic:
            return RamLinux(kernel, data["initramfs"], data.get("device_tree", b""), command)
    raise ConfigurationError(
        f"{files['kernel'].name}: neither an arm64 Image nor an arm zImage: give the kernel "
        "as `make Image` or `make zImage` leaves it"
    )


def place(linux: RamLinux, memory: tuple[int, int]) -> list[Placed]:
    """Choose load addresses for the files, one behind the other.

    Args:
        memory: begin and end of the free memory.

    Raises:
        ConfigurationError: they do not fit.
    """
    begin, end = memory
    if linux.command == "bootz":
        begin = max(begin, begin // _ALIGN * _ALIGN + _ZIMAGE_ROOM * len(linux.kernel))
    placed: list[Placed] = []
    for name, data, room in (
        ("kernel", linux.kernel, linux.kernel_room),
        ("device tree", linux.device_tree, len(linux.device_tree)),
        ("initramfs", linux.initramfs, len(linux.initramfs)),
    ):
        begin = -(-begin // _ALIGN) * _ALIGN
        if data:
            placed.append(Placed(name, begin, data))
        begin += room
    if begin > end:
        raise ConfigurationError(
            f"kernel and initramfs end at {begin:#x}, and U-Boot's memory is free up to "
            f"{end:#x}: give a smaller initramfs, or kernel"
        )
    return placed


def arguments(console: str, speed_bd: int, address: str = "", more: str = "") -> str:
    """Command line of the kernel, with few kernel messages on the shell.

    Args:
        console: the kernel's name of the UART.
        address: of the board; empty: DHCP.
        more: what the environment adds.

    Raises:
        ConfigurationError: a word cannot be typed at U-Boot's prompt.
    """
    network = f" ip={address}:::255.255.255.0:::off" if address else ""
    text = f"console={console},{speed_bd}n8 rdinit=/init loglevel=4{network}{' ' if more else ''}{more}"
    if not re.fullmatch(r"[\w.,:=/@+ -]+", text, re.ASCII):
        raise ConfigurationError(
            f"{text!r:.200}: letters, digits and . , : = / @ + _ - only, as it is typed at U-Boot's prompt"
        )
    return text


def start(linux: RamLinux, placed: Sequence[Placed]) -> str:
    """U-Boot's command that starts it."""
    at: Mapping[str, Placed] = {file.name: file for file in placed}
    tree = f"{at['device tree'].address:#x}" if "device tree" in at else "${fdtcontroladdr}"
    ramdisk = at["initramfs"]
    return f"{linux.command} {at['kernel'].address:#x} {ramdisk.address:#x}:{len(ramdisk.data):#x} {tree}"


@define
class Start:
    """Watches the console from U-Boot's command to the shell's prompt.

    Attributes:
        prompt: regular expression.
        failures: console text -> failure class, as board types have them.
        up: whether the prompt came.
    """

    prompt: str
    failures: Mapping[str, str]
    up: bool = field(default=False, init=False)
    last_line: str = field(default="", init=False)
    _line: str = field(default="", init=False)

    def feed(self, data: bytes) -> None:
        """Take what was read.

        Raises:
            RecoveryFailedError: U-Boot refused to start it.
            BoardTransientError: with the class of what the kernel said; `reset` where the board began anew.
        """
        *lines, rest = (self._line + data.decode("latin-1")).split("\n")
        self._line = rest[-_LINE_BYTES:]
        for line in lines:
            self.last_line = line.strip() or self.last_line
            error: BoardlabError | None = None
            if _REFUSED.search(line):
                error = RecoveryFailedError(
                    "U-Boot does not start the Linux in memory: it said "
                    f"{line.strip()!r}. Are kernel and initramfs this board's?"
                )
            elif _AGAIN.search(line):
                error = BoardTransientError(
                    "the board began anew while the Linux in memory started: "
                    f"{line.strip()!r}. Look for a watchdog, or a weak supply",
                    failure="reset",
                )
            for pattern, means in self.failures.items():
                if error is None and re.search(pattern, line):
                    error = BoardTransientError(
                        f"the Linux in memory did not start: it printed {line.strip()!r}. Nothing was written; the "
                        "console's log shows what led to it. Are kernel, device tree and initramfs this board's?",
                        failure=means,
                    )
            if error is not None:
                raise error
        self.up = self.up or re.search(self.prompt, self._line) is not None
        self.up = self.up or any(re.search(rf"(?:{self.prompt}){_KERNEL_LINE}", line) for line in lines)

    def late_error(self, limit_s: float) -> BoardTransientError:
        """Error for a Linux that keeps printing without a prompt."""
        return BoardTransientError(
            f"the Linux in memory did not come to its prompt within {limit_s:g} s, and the last it said was "
            f"{self.last_line!r}. Is `prompt` of `ram` in the env that of its "
            "shell? The console's log shows what repeats",
            failure="hang_kernel",
        )

    def silence_error(self, silent_s: float) -> BoardTransientError:
        """Error for a Linux that fell silent without a prompt."""
        return BoardTransientError(
            f"the Linux in memory did not come to its prompt: nothing for {silent_s:g} s, and the last it said was "
            f"{self.last_line!r}. Is its console the board's, and does its initramfs open a shell there? "
            "docs/releases.md says what it needs",
            failure="hang_kernel",
        )


def _kind(name: str) -> str:
    low = name.lower()
    if ".cpio" in low or "initramfs" in low or "initrd" in low:
        return "initramfs"
    return "device_tree" if low.endswith(".dtb") else "kernel"
