"""Releases for simulated boards, and what stands in for Snagboot: its `snagrecover` as far as a DFU port shows it."""

from __future__ import annotations

import ast
import hashlib
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import define, field

from lab.provision.release import Recovery, RecoveryStage
from lab.provision.snagboot import ProgramEnd
from lab.virtual.sim import firmware
from lab.virtual.sim.usb import DNLOAD, DNLOAD_IDLE, GETSTATUS, StallError, UsbPort
from support.simlab import S, SimLab

STAGE_BYTES = {"tiboot3.bin": 3_000, "tispl.bin": 4_500, "u-boot.img": 4_000}
_TRANSFER_BYTES = 512  # wTransferSize of the ROM
_APPEARS_NS = 20 * S


def images(board_type: str = "am62xx_sk", release: str = "11.01") -> dict[str, bytes]:
    """The boot images of a release, small."""
    return {part: firmware.make(part, board_type, release, size) for part, size in STAGE_BYTES.items()}


def recovery(folder: Path, made: dict[str, bytes] | None = None, *, way: str = "uart") -> Recovery:
    """A release's recovery set, as files in a folder."""
    stages = []
    for name, data in (made or images()).items():
        (folder / name).write_bytes(data)
        stages.append(RecoveryStage(name=name, source=str(folder / name), sha256=hashlib.sha256(data).hexdigest()))
    return Recovery(soc="am625", **{way: stages})


@define(eq=False)
class PlayedSnagrecover:
    """`snagrecover` with a simulated board on its USB: the requests of DFU, in the order of Snagboot's AM6x recovery.

    USB's enumeration, its timing and Snagboot's own code are not played.

    Attributes:
        reached: told how many bytes of all have gone over, before each transfer; it may raise, as a kill ends the program.
    """

    lab: SimLab
    reached: Callable[[int], None] = lambda _count: None
    sent: int = 0

    def __call__(self, arguments: Sequence[str], timeout_s: float) -> ProgramEnd:  # noqa: ARG002 - as of `Run`
        files = {}
        for option, value in itertools.pairwise(arguments):
            if option == "-F":
                files |= {name: Path(said["path"]) for name, said in ast.literal_eval(value).items()}
        usb = self.lab.board.usb
        try:
            for name, target in {"tiboot3": "bootloader", "tispl": "tispl.bin", "u-boot": "u-boot.img"}.items():
                if not self._appears(usb, target):
                    return ProgramEnd((f"no USB device offers {target}",), 1)
                self._download(usb, files[name].read_bytes())
        except StallError as error:
            return ProgramEnd((f"error: {error}",), 1)
        return ProgramEnd((f"Done recovering {arguments[2]} board",), 0)

    def _appears(self, usb: UsbPort, target: str) -> bool:
        deadline_ns = self.lab.now_ns + _APPEARS_NS
        while target not in usb.alternates:
            if not self.lab.step_until(deadline_ns):
                return False
        return True

    def _download(self, usb: UsbPort, data: bytes) -> None:
        for number, start in enumerate(range(0, len(data), _TRANSFER_BYTES)):
            self.reached(self.sent)
            part = data[start : start + _TRANSFER_BYTES]
            usb.control(DNLOAD, number, part)
            self.sent += len(part)
            assert usb.control(GETSTATUS, 0)[4] == DNLOAD_IDLE
        usb.control(DNLOAD, number + 1)  # the device takes it, and leaves the bus


@define(eq=False)
class PlayedSnagflash:
    """`snagflash -P fastboot -f download:FILE` with a simulated board on its USB: the packets of fastboot's protocol."""

    lab: SimLab
    calls: list[Sequence[str]] = field(factory=list)

    def __call__(self, arguments: Sequence[str], timeout_s: float) -> ProgramEnd:  # noqa: ARG002 - as of `Run`
        self.calls.append(arguments)
        data = Path(arguments[-1].removeprefix("download:")).read_bytes()
        usb = self.lab.board.usb
        if not self._until(lambda: usb.fastboot):
            return ProgramEnd(("no USB device found",), 1)
        usb.answers.clear()
        usb.bulk(f"download:{len(data):08x}".encode())
        for wanted in (b"DATA", b"OKAY"):
            if not self._until(lambda: bool(usb.answers)) or not usb.answers[0].startswith(wanted):
                return ProgramEnd((f"Fastboot error: {list(usb.answers)}",), 1)
            usb.answers.popleft()
            if wanted == b"DATA":
                for start in range(0, len(data), _TRANSFER_BYTES):
                    usb.bulk(data[start : start + _TRANSFER_BYTES])
        return ProgramEnd(("Done",), 0)

    def _until(self, reached: Callable[[], bool]) -> bool:
        deadline_ns = self.lab.now_ns + _APPEARS_NS
        while not reached():
            if not self.lab.step_until(deadline_ns):
                return False
        return True
