"""SD by a multiplexer.

The board is off, the card is at the host, is written and read back there, and goes back to the board.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final

import pyudev
from attrs import asdict, evolve, field, frozen

from lab.errors import BoardlabError, ConfigurationError, LabTransientError
from lab.host import devices, locks, process
from lab.host.clock import MonotonicRaw
from lab.host.ssh import SshLink
from lab.provision.errors import MediaMissingError, TargetRefusedError
from lab.provision.image import Hosts
from lab.provision.release import Content
from lab.provision.snagboot import hub_of_disk, turn_at
from lab.provision.writer import Meter, Plan, Report, Verified, WriteTarget
from lab.provision.writers import blockdevice, blockwriter, planning
from lab.provision.writers.blockdevice import WAITS, BlockDevice, Opener

# What the host uses is what the kernel says (proc(5) mountinfo and swaps; sysfs holders): a disk, or a partition of
# it, that is mounted, swapped to, or held by LVM, RAID or dm-crypt.


_SECTOR_BYTES: Final = 512  # of sysfs, whatever the device's is


@frozen
class Disk:
    """A disk of the host, or the file of a virtual one.

    Attributes:
        identity: its ID_PATH and serial, as udev has them; may be empty.
        host: the other host that it is on; empty: this one.
    """

    path: str
    size_bytes: int
    identity: str = ""
    host: str = ""

    @property
    def label(self) -> str:
        """For a person."""
        return f"{self.host}:{self.path}" if self.host else self.path


@frozen
class Host:
    """Kernel's file systems about disks of this host."""

    sys: Path = Path("/sys")
    proc: Path = Path("/proc")

    def disk(self, path: str, identity: str = "") -> Disk:
        """Return an unused disk under the kernel's name.

        A link to it may lead to another device a moment later.

        Raises:
            MediaMissingError: there is no such device, or no medium in it.
            TargetRefusedError: it is no whole disk, or is in use.
        """
        try:
            return self._disk(path, identity)
        except OSError as error:  # sysfs: the files of a device go with it
            raise MediaMissingError(
                f"{path}: it vanished while it was looked at ({error.strerror}). Is "
                "the card in, and the multiplexer's cable?"
            ) from error

    def _disk(self, path: str, identity: str) -> Disk:
        device = Path(path)
        if not device.exists():
            raise MediaMissingError(
                f"{path}: the host has no such device. Is the card in, and the multiplexer at the host?"
            )
        if not device.is_block_device():
            raise TargetRefusedError(
                f"{path}: not a disk; nothing was written. The env's multiplexer names it: mend that"
            )
        name = device.resolve().name
        folder = self.sys / "class" / "block" / name
        if (folder / "partition").exists():
            raise TargetRefusedError(
                f"{path}: a partition; expected the whole card. Nothing was written; mend the env"
            )
        if reasons := sorted(set(self._uses(folder))):
            raise TargetRefusedError(
                f"{path}: the host uses it ({', '.join(reasons)}); nothing was written. If that is the card, unmount "
                "it; if it is not, the env names somebody else's disk"
            )
        with suppress(OSError):  # the kernel looks for a medium when it is opened; else every 2 s, or never
            os.close(os.open(device, os.O_RDONLY | os.O_CLOEXEC))
        size = int((folder / "size").read_text()) * _SECTOR_BYTES
        if size == 0:
            raise MediaMissingError(f"{path}: no card in it. Is the card in the multiplexer?")
        return Disk(str(device.resolve()), size, identity)

    def _uses(self, folder: Path) -> Iterator[str]:
        mounted = dict(self._mounts())
        swaps = self._swaps()
        for device in [folder, *(part.parent for part in folder.glob("*/partition"))]:
            number = (device / "dev").read_text().strip()
            if where := mounted.get(number) or mounted.get(device.name):
                yield f"{device.name} is mounted on {where}"
            if device.name in swaps:
                yield f"{device.name} is swap"
            for holder in (device / "holders").glob("*"):
                yield f"{device.name} is part of {holder.name}"

    def _mounts(self) -> Iterator[tuple[str, str]]:
        """Yield each mount: number or name of the device, mount point.

        btrfs gives numbers that no device has.
        """
        for line in (self.proc / "self" / "mountinfo").read_text().splitlines():
            fields, _, mount = line.partition(" - ")
            number, where = fields.split()[2], fields.split()[4]
            source = mount.split()[1]
            yield number, where
            if source.startswith("/dev/"):
                yield Path(source).resolve().name, where

    def _swaps(self) -> set[str]:
        try:
            lines = (self.proc / "swaps").read_text().splitlines()[1:]
        except OSError:
            return set()
        return {Path(line.split()[0]).name for line in lines if line.strip()}


def check_identity(disk: Disk, *, smallest: int, largest: int) -> None:
    """Make sure that a disk has the environment's size.

    Raises:
        TargetRefusedError: it is smaller or larger than the environment allows.
    """
    if not smallest <= disk.size_bytes <= largest:
        raise TargetRefusedError(
            f"{disk.path}: {disk.size_bytes} bytes, and the env allows {smallest} to {largest} for it; nothing was "
            "written. Is it another card, or somebody's disk? If it is right, mend smallest and largest in the env"
        )


PIECE_BYTES: Final = 4 * 1024 * 1024
_USUAL_RATE: Final = 20e6
_WITHOUT: Final = frozenset({"hardware", "mtd", "volume", "partition"})


@frozen
class CardWriter:
    """Writes a card that is at the host for a while.

    Attributes:
        at_host: brings the card to the host, with the board off, and gives the disk that it is there; at its end the
            card is at the board again, both verified. It refuses disks that are not the card.
        opener: what opens the block writer of a disk; None: this host's.
    """

    name: str
    at_host: Callable[[], AbstractContextManager[Disk]]
    hosts: Hosts | None = None
    stall_s: float = blockdevice.STALL_S
    now_ns: Callable[[], int] = field(default=MonotonicRaw().now_ns)
    opener: Callable[[Disk], blockdevice.Opener | None] = lambda _disk: None

    def plan(self, content: Content, target: WriteTarget) -> Plan:
        planned = planning.steps(content, self.hosts, without=_WITHOUT)
        if content.extcsd.given:
            raise ConfigurationError(f"{target.medium}: extcsd is an eMMC's; a card has none. Mend the release file")
        with self.at_host() as disk:
            card = disk
        planning.check_fits(content, planned, card.size_bytes, self.hosts)
        target = evolve(target, device=card.label, identity=card.identity, size_bytes=card.size_bytes, host=card.host)
        return Plan(self.name, target, content, planned, estimate_s=sum(step.bytes for step in planned) / _USUAL_RATE)

    def write(self, plan: Plan, report: Report) -> None:
        meter = Meter(plan.total_bytes, report, self.now_ns, self.stall_s)
        with self.at_host() as disk:
            expect_same(disk, plan.target.identity, plan.target.size_bytes or 0)
            blockdevice.write(
                disk.path,
                planning.place_pieces(planning.pieces(plan.steps, PIECE_BYTES, self.hosts)),
                meter,
                lambda piece: plan.steps[piece.step].name,
                self.opener(disk),
            )

    def verify(self, plan: Plan) -> Verified:
        """Read every written byte back from the card.

        Bytes that a later part overwrote are left out.
        """
        meter = Meter(plan.total_bytes, lambda _progress: None, self.now_ns, self.stall_s)
        with self.at_host() as disk:
            expect_same(disk, plan.target.identity, plan.target.size_bytes or 0)
            compared = blockdevice.compare(
                disk.path,
                planning.place_pieces(
                    planning.not_overwritten(plan.steps, planning.pieces(plan.steps, PIECE_BYTES, self.hosts), 1)
                ),
                meter,
                self.opener(disk),
            )
        return Verified(compared.digest, compared.count)

    def switch(self, plan: Plan) -> str:  # noqa: ARG002 - as of `Writer`
        """Do nothing: a card has one place to boot from."""
        return ""


# --- Cards at another host, through ssh ---
# There `lab farm card` runs, as the user that ssh logs in as; it refuses what `lab.provision.writers.sd_mux` refuses,
# looks again before it writes, waits until no other program of that host writes at the same USB hub, and is
# `lab.provision.writers.blockwriter` then. When the connection is cut, or nothing comes for IDLE_S, it ends, and drops
# what it has not written.


IDLE_S: Final = 120.0
_LOOK_S: Final = 30.0  # a start of `lab` on a loaded host
_NO_PROGRAM: Final = 127  # of the shell that sshd starts
_REFUSALS: Final = {error.failure: error for error in (MediaMissingError, TargetRefusedError)}


def identity_of(path: str) -> str:
    """Identity of a disk of this host, in udev's words.

    Raises:
        MediaMissingError: it has gone.
    """
    place = devices.identify(Path(path))
    try:
        device = pyudev.Devices.from_device_file(pyudev.Context(), path)
        if device.subsystem == "block" and not device.is_initialized:
            raise MediaMissingError(f"{path}: udev has not looked at it yet. Does systemd-udevd run? Try again")
        properties = device.properties
        id_path = properties.get("ID_PATH", "")
        if place is not None and place.ports and id_path and f":{place.ports}:" not in id_path:
            raise MediaMissingError(
                f"{path}: udev has the place of another device of that name ({id_path}), and it is in socket "
                f"{place.ports}. Try again"
            )
    except (pyudev.DeviceNotFoundError, OSError) as error:
        raise MediaMissingError(
            f"{path}: it vanished while it was looked at. Is the card in, and the multiplexer's cable?"
        ) from error
    return " ".join(properties[name] for name in ("ID_PATH", "ID_SERIAL", "ID_SERIAL_SHORT") if name in properties)


def disk_here(path: str) -> Disk:
    """A disk of this host that nobody uses.

    Raises:
        MediaMissingError, TargetRefusedError: as of `Host.disk`.
    """
    return Host().disk(path, identity_of(path))


def opener_here(disk: Disk) -> Opener:
    """Opener of a block writer for a disk of this host.

    It checks the disk again when it is open, as an open disk keeps its name.
    """

    @contextmanager
    def open_writer(device: str, meter: Meter, *, writable: bool) -> Iterator[BlockDevice]:
        with blockdevice.open_writer(device, meter, writable=writable) as block:
            expect_same(disk_here(device), disk.identity, disk.size_bytes)
            yield block

    return open_writer


def expect_same(disk: Disk, identity: str, size_bytes: int) -> None:
    """Make sure that a disk is still the same.

    Raises:
        TargetRefusedError: it is another one.
    """
    if (disk.identity, disk.size_bytes) != (identity, size_bytes):
        raise TargetRefusedError(
            f"{disk.path}: it is another disk than when it was looked at "
            f"({disk.identity or 'nothing that udev knows'}, {disk.size_bytes} bytes); nothing was written"
        )


def look(path: str) -> str:
    """Output of `lab farm card PATH`."""
    try:
        return json.dumps(asdict(disk_here(path)))
    except BoardlabError as error:
        return json.dumps({"error": str(error), "failure": error.failure})


def serve(path: str, identity: str, size_bytes: int, *, writable: bool) -> str:
    """Be the block writer of a disk that is still the same.

    Returns the error as `look` does; empty: none.
    """
    try:
        disk = disk_here(path)
        expect_same(disk, identity, size_bytes)
        with _turn(path, hub_of_disk(identity)):
            blockwriter.main([disk.path, "--idle", str(IDLE_S), *([] if writable else ["--read-only"])])
    except BoardlabError as error:
        return json.dumps({"error": str(error), "failure": error.failure})
    return ""


def _turn(path: str, hub: str) -> AbstractContextManager[None]:
    """Hold a hub of this host; waiting prints the holder.

    It ends when nobody reads standard output any more.

    Raises (in the context):
        LabTransientError: the other host is gone.
    """
    if not hub:
        return nullcontext()
    asked_from = os.environ.get("SSH_CONNECTION", "here").split()[0]  # sshd's: client, its port, server, its port
    who, others = f"{path} by {process.person()} from {asked_from}", list[str]()

    def waiting() -> None:
        if select.select([0], [], [], 0)[0]:  # no order comes before we say that the device is open
            raise LabTransientError("the other host, which wanted to write, has gone", failure="console_link")
        os.write(1, f"{WAITS} {others[0]} at the same USB hub ({hub})\n".encode())

    return locks.turn(turn_at(hub), who, others.append, waiting)


@frozen
class CardHost:
    """A host with multiplexers.

    Attributes:
        program: its command `lab`.
    """

    link: SshLink
    program: str = "lab"

    def disk(self, path: str) -> Disk:
        """A disk of that host.

        Raises:
            MediaMissingError, TargetRefusedError: as of `disk_here`.
            ConfigurationError: there is no `lab`, or one that cannot do this.
            LabTransientError: ssh does not get there.
        """
        try:
            done = self.link.ran([self.program, "farm", "card", path], _LOOK_S)
        except subprocess.TimeoutExpired as error:
            raise LabTransientError(
                f"`{self.program} farm card {path}` on {self.link.host} did not end "
                f"within {_LOOK_S:g} s; is that host overloaded?",
                failure="multiplexer_failed",
            ) from error
        try:
            answer = json.loads(done.stdout)
            if "error" in answer:
                raise _REFUSALS.get(answer["failure"], TargetRefusedError)(f"on {self.link.host}: {answer['error']}")
            return Disk(answer["path"], answer["size_bytes"], answer["identity"], self.link.host)
        except (ValueError, KeyError, TypeError) as error:
            why = "there is no such program" if done.returncode == _NO_PROGRAM else done.stderr.strip()[-200:]
            raise ConfigurationError(
                f"`{self.program} farm card {path}` on {self.link.host}: {why or 'it said nothing'}. The card is "
                "written there by boardlab: install it, and give MultiplexedCardDriver its path as `program` where "
                "ssh does not find it; nothing was written"
            ) from error

    def open_writer(self, disk: Disk) -> Opener:
        """Opener of a block writer on the other host."""

        @contextmanager
        def open_writer(device: str, meter: Meter, *, writable: bool) -> Iterator[BlockDevice]:
            argv = [
                self.program,
                "farm",
                "card",
                device,
                "--identity",
                disk.identity,
                "--bytes",
                str(disk.size_bytes),
            ]
            process = self.link.started([*argv, "--write" if writable else "--read"])
            with blockdevice.closing(process):
                yield BlockDevice(process, disk.label, meter, _refusal)

        return open_writer


def _refusal(line: str) -> BoardlabError | None:
    """Error in the other host's line; None: it is an answer."""
    if not line.startswith("{"):
        return None
    answer = json.loads(line)
    return _REFUSALS.get(answer["failure"], TargetRefusedError)(str(answer["error"]))
