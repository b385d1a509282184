"""A board whose Linux writes its media, played: every byte that it fetches, writes or reads is work, and at some byte something strikes.

What outlives the power are the bytes of the media; a UBI is what stands on the flash, so one that was formatted by half is that, too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from attrs import define, field

from lab.errors import BoardTransientError
from lab.provision.errors import TftpTimeoutError
from lab.provision.writers import linuxanswers as answers

ERASE = 0x4000
DISK, FLASH, OTHER_DISK, OTHER_FLASH = "/dev/mmcblk0", "/dev/mtd0", "/dev/mmcblk1", "/dev/mtd1"
SIZES = {DISK: 2 << 20, FLASH: 16 * ERASE, OTHER_DISK: 4096, OTHER_FLASH: 4096}
_STALLED = -1
_STEP = 4096  # what is on a medium when its power goes is a number of these
_VID, _TABLE, _MARKER, _DATA = (
    64,
    128,
    120,
    128,
)  # of a block of a played UBI: its headers, its volume table, "an update began", its data
LEB = ERASE - _DATA
_STAT = "     120        0     4000       50      1        0    {}       90        0      100      140        0        0        0        0"
_NO_UBI = ['ubiattach: error!: cannot attach "/dev/mtd0"', "           error 22 (Invalid argument)"]


class LostPowerError(BaseException):
    """Within a command: nothing goes on."""


class KilledError(BaseException):
    """Stands for kill -9 of the process: nobody catches it."""


def silent(cmd: str) -> BoardTransientError:
    """What a prompt raises whose command does not end."""
    return BoardTransientError(f"`{cmd}` did not end", failure="linux_timeout")


@define(eq=False)
class CutLinux:
    """A prompt.

    Attributes:
        media: bytes by device. spool: the piece in memory. work: bytes moved so far. strike_at: the work at which `end` happens.
        network: "" carries everything; "stall": nothing any more; "reset": the connection ends with an error; "short": it ends without one.
        missed: how often the network was asked for something that it did not bring.
    """

    folder: Path
    has_bmaptool: bool = False
    media: dict[str, bytearray] = field(
        factory=lambda: {name: bytearray(b"\x5a" * SIZES[name]) for name in (DISK, FLASH, OTHER_DISK, OTHER_FLASH)}
    )
    spool: bytes = b""
    work: int = 0
    strike_at: int | None = None
    end: str = ""
    struck: bool = False
    missed: int = 0
    network: str = ""
    is_on: bool = True
    clock_ns: int = 0
    ubi: bool = False
    boots: int = 0
    typed: list[str] = field(factory=list)
    _copying: Iterator[int] | None = None
    _copied: int = 0
    _log: str = ""

    def boot(self) -> CutLinux:
        """Power off and on: what is in memory is gone."""
        self.spool, self.ubi, self.is_on, self._copying = b"", False, True, None
        self.boots += 1
        return self

    def now_ns(self) -> int:
        """A clock that goes on with each command."""
        return self.clock_ns

    def run(self, cmd: str, timeout: float = 0) -> tuple[list[str], list[str], int]:
        """As labgrid's ShellDriver."""
        del timeout
        self.clock_ns += 5 * 10**9
        self.typed.append(cmd)
        if not self.is_on:
            raise silent(cmd)
        try:
            lines, status = self._answer(cmd)
        except LostPowerError:
            self.is_on = False
            raise silent(cmd) from None
        self._killed()
        return lines, [], status

    def put(self, source: str, target: str, _count: int) -> None:
        """As `OverSsh` has it copied: scp."""
        assert target == answers.SPOOL
        if not self.is_on:
            raise TftpTimeoutError("the board does not answer over ssh")
        try:
            status = self._fetched(Path(source).read_bytes())
        except LostPowerError:
            self.is_on = False
            raise TftpTimeoutError("a piece did not come to the board over ssh") from None
        self._killed()
        if status:
            raise TftpTimeoutError("a piece did not come to the board over ssh")

    def _killed(self) -> None:
        if self.struck and self.end == "killed" and self.strike_at is not None:
            self.strike_at = None
            raise KilledError

    def did(self, count: int) -> None:
        """So many bytes more were moved."""
        self.work += count
        if self.strike_at is None or self.struck or self.work < self.strike_at:
            return
        self.struck = True
        if self.end == "power":
            raise LostPowerError
        if self.end != "killed":
            self.network = self.end

    def _answer(self, cmd: str) -> tuple[list[str], int]:
        for pattern, method in _COMMANDS:
            if found := re.match(pattern, cmd):
                return method(self, *found.groups())
        raise AssertionError(f"nobody plays {cmd}")

    def _put(self, device: str, offset: int, data: bytes) -> None:
        for at in range(0, len(data), _STEP):
            piece = data[at : at + _STEP]
            self.media[device][offset + at : offset + at + len(piece)] = piece
            self.did(len(piece))

    def _fetched(self, data: bytes) -> int:
        """Into memory; returns the exit status, or that it does not end."""
        self.spool = b""
        for at in range(0, len(data), _STEP):
            if self.struck and self.end == "killed":
                return 1  # the server went with the process
            if self.network:
                self.missed += 1
                return {"reset": 1, "short": 0}.get(self.network, _STALLED)
            self.spool += data[at : at + _STEP]
            self.did(len(data[at : at + _STEP]))
        return 0

    def _wget(self, url: str) -> tuple[list[str], int]:
        status = self._fetched(Path(url).read_bytes())
        if status == _STALLED:
            raise silent("wget")
        return ([f"wget: server returned error: {url}"] if status else []), status

    def _stream(self, url: str, device: str, size: str, seek: str) -> tuple[list[str], int]:
        status = self._fetched(Path(url).read_bytes())
        came, self.spool = self.spool, b""
        self._put(device, int(size) * int(seek), came)
        if status == _STALLED:
            raise silent("wget | dd")
        whole, rest = divmod(len(came), int(size))
        lost = ["wget: server returned error"] if status else []
        return [*lost, f"boardlab-first {status}", f"{whole}+{int(rest > 0)} records out"], 0

    def _digest(self, data: bytes) -> tuple[list[str], int]:
        self.did(len(data))
        return [f"{hashlib.sha256(data).hexdigest()}  -"], 0

    def _spooled(self) -> tuple[list[str], int]:
        return self._digest(self.spool)

    def _dd(self, device: str, size: str, seek: str) -> tuple[list[str], int]:
        block, offset = int(size), int(size) * int(seek)
        if device == FLASH:
            assert set(self.media[device][offset : offset + len(self.spool)]) <= {0xFF}, (
                "written where nothing was erased"
            )
        self._put(device, offset, self.spool)
        whole, rest = divmod(len(self.spool), block)
        return [f"{whole}+{int(rest > 0)} records out"], 0

    def _read(self, device: str, size: str, skip: str, count: str) -> tuple[list[str], int]:
        begin = int(size) * int(skip)
        return self._digest(bytes(self.media[device][begin : begin + int(count)]))

    def _erase(self, device: str, offset: str, blocks: str) -> tuple[list[str], int]:
        for number in range(int(blocks)):
            self._put(device, int(offset, 0) + number * ERASE, b"\xff" * ERASE)
        return [], 0

    def _flashcp(self, device: str) -> tuple[list[str], int]:
        self._erase(device, "0", str(-(-len(self.spool) // ERASE)))
        self._put(device, 0, self.spool)
        return ["Verifying data: 1k/1k (100%)"], 0

    def _ubiattach(self) -> tuple[list[str], int]:
        if self.ubi:
            return ["           error 17 (File exists)"], 255
        chip = self.media[FLASH]
        blocks = [chip[at : at + 4] for at in range(0, len(chip), ERASE)]
        self.ubi = all(each == b"UBI#" for each in blocks) and chip[_VID : _VID + 4] == b"UBI!"
        return (["UBI device number 0, total 16 LEBs"], 0) if self.ubi else (_NO_UBI, 255)

    def _ubidetach(self) -> tuple[list[str], int]:
        self.ubi = False
        return [], 0

    def _ubiformat(self) -> tuple[list[str], int]:
        for at in range(0, len(self.media[FLASH]), ERASE):
            self._put(FLASH, at, b"UBI#" + b"\xff" * (ERASE - 4))
        self._put(FLASH, _VID, b"UBI!")
        return [], 0

    def _ubimkvol(self, name: str) -> tuple[list[str], int]:
        self._put(FLASH, _TABLE, name.encode() + b"\0")
        return [f'Volume ID 0, dynamic, name "{name}", alignment 1'], 0

    def _volume(self) -> str:
        table = bytes(self.media[FLASH][_TABLE : _TABLE + 64])
        return "" if table[0] == 0xFF else table.partition(b"\0")[0].decode()

    def _ubis(self) -> tuple[list[str], int]:
        lines = ["/sys/class/ubi/ubi0/mtd_num:0"] if self.ubi else []
        if self.ubi:
            lines += ["/sys/class/ubi/ubi0/avail_eraseblocks:15", f"/sys/class/ubi/ubi0/eraseblock_size:{LEB}"]
        if self.ubi and (name := self._volume()):
            lines += [
                f"/sys/class/ubi/ubi0_0/{each}"
                for each in (f"name:{name}", "reserved_ebs:15", f"usable_eb_size:{LEB}")
            ]
        return lines, 0

    def _ubiupdatevol(self) -> tuple[list[str], int]:
        assert self.ubi
        assert self._volume()
        self._put(FLASH, _MARKER, b"\1")
        for number in range(-(-len(self.spool) // LEB)):
            self._put(FLASH, (number + 1) * ERASE + _VID, b"UBI!")
            self._put(FLASH, (number + 1) * ERASE + _DATA, self.spool[number * LEB : (number + 1) * LEB])
        self._put(FLASH, _MARKER, b"\0")
        return [], 0

    def volume(self) -> bytes:
        """What the UBI volume has; empty: nothing that can be read, e.g. since an update of it was cut short."""
        chip = self.media[FLASH]
        if chip[_MARKER] != 0:
            return b""
        return b"".join(bytes(chip[at + _DATA : at + ERASE]) for at in range(ERASE, len(chip), ERASE))

    def _head(self, count: str) -> tuple[list[str], int]:
        return self._digest(self.volume()[: int(count)])

    def _scan(self, script: str) -> tuple[list[str], int]:
        """The board's shell reads the flash; played, since it reads nothing but headers (test_linux_flash has a real shell do it)."""
        at, magic = (0, b"UBI#") if "UBI#" in script else (_VID, b"UBI!")
        chip = self.media[FLASH]
        return [str(sum(chip[block + at : block + at + 4] == magic for block in range(0, len(chip), ERASE)))], 0

    def _bmaptool(self, url: str) -> tuple[list[str], int]:
        data = Path(url).read_bytes()
        self._copied, self._log = 0, ""

        def copying() -> Iterator[int]:
            for at in range(0, len(data), _STEP):
                if self.struck and self.end == "killed":
                    return
                self.missed += bool(self.network)
                while self.network == "stall":
                    yield 0
                if self.network:
                    self._log = "bmaptool: ERROR: cannot open URL: urlopen error timed out"
                    return
                self._put(DISK, at, data[at : at + _STEP])
                yield len(data[at : at + _STEP])
            self._log = "bmaptool: info: copying time: 0.1s, copying speed 12.0 MiB/sec"

        self._copying = copying()
        return [], 0

    def _look(self) -> tuple[list[str], int]:
        assert self._copying is not None
        for _ in range(16):
            moved = next(self._copying, None)
            if moved is None:
                return ["0" if "copying" in self._log else "1", _STAT.format(self._copied // 512)], 0
            self._copied += moved
        return [_STAT.format(self._copied // 512)], 0

    def _end(self) -> tuple[list[str], int]:
        return [self._log], int("copying" not in self._log)

    def _ask_bmaptool(self) -> tuple[list[str], int]:
        return (["/usr/bin/bmaptool"] if self.has_bmaptool else []), 0

    def _memory(self) -> tuple[list[str], int]:
        self.spool = b""
        return ["MemAvailable:   9216 kB"], 0

    def _size(self) -> tuple[list[str], int]:
        return [str(len(self.media[DISK]) // 512)], 0

    def _mtds(self) -> tuple[list[str], int]:
        return [
            line
            for number, name in enumerate(("ospi", "other"))
            for line in (f'mtd{number}: {16 * ERASE:08x} {ERASE:08x} "{name}"', f"/sys/class/mtd/mtd{number}/type:nor")
        ], 0

    def _mounts(self) -> tuple[list[str], int]:
        return ["none / rootfs rw 0 0", *(["/sys/class/ubi/ubi0/mtd_num:0"] if self.ubi else [])], 0

    def _nothing(self) -> tuple[list[str], int]:
        return [], 0


_COMMANDS: tuple[tuple[str, Callable[..., tuple[list[str], int]]], ...] = (
    (r"cat /proc/mtd", CutLinux._mtds),
    (r"cat /proc/mounts", CutLinux._mounts),
    (r"cat /sys/class/block/mmcblk0/size", CutLinux._size),
    (r"rm -f /run/boardlab-piece; df", CutLinux._memory),
    (r"wget -q -O \S+ (\S+)$", CutLinux._wget),
    (r"\{ wget -q -O - (\S+); .* \| dd of=(\S+) ibs=64k obs=(\d+) seek=(\d+) ", CutLinux._stream),
    (r"sha256sum /run/boardlab-piece$", CutLinux._spooled),
    (r"dd if=/dev/null ", CutLinux._nothing),
    (r"dd if=/run/boardlab-piece of=(\S+) bs=(\d+) seek=(\d+) ", CutLinux._dd),
    (r"\{ dd if=(\S+) bs=(\d+) skip=(\d+) count=\d+; .* \| head -c (\d+)", CutLinux._read),
    (r"sync; echo 3", CutLinux._nothing),
    (r"for p in ", CutLinux._nothing),
    (r"flash_erase -q (\S+) (\S+) (\d+)$", CutLinux._erase),
    (r"flashcp -v \S+ (\S+) ", CutLinux._flashcp),
    (r"ubiattach -p ", CutLinux._ubiattach),
    (r"ubidetach -p ", CutLinux._ubidetach),
    (r"ubiformat ", CutLinux._ubiformat),
    (r"ubimkvol /dev/ubi0 -N (\S+) -m", CutLinux._ubimkvol),
    (r"ubiupdatevol ", CutLinux._ubiupdatevol),
    (r"grep -H \. /sys/class/ubi", CutLinux._ubis),
    (r"\{ head -c (\d+) /dev/ubi0_0; ", CutLinux._head),
    (r"(i=0; while \[ \$i -lt .*mtd0.*)", CutLinux._scan),
    (r"command -v bmaptool", CutLinux._ask_bmaptool),
    (r"rm -f \S+; \( bmaptool copy --bmap \S+ (\S+) ", CutLinux._bmaptool),
    (r"i=0; while \[ ! -s ", CutLinux._look),
    (r"tail -n ", CutLinux._end),
)
