"""The card of a multiplexer on another host: that host looks at the disk and writes it, and this one says through ssh what.

There `lab farm card` runs, as the user that ssh logs in as; it refuses what `lab.provision.ways.hostdisk` refuses, looks again before it
writes, waits until no other program of that host writes at the same USB hub, and is `lab.provision.ways.blockwriter` then. When the connection is cut, or nothing comes for IDLE_S, it ends, and drops what it
has not written.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

import pyudev
from attrs import asdict, frozen

from lab.errors import BoardlabError, ConfigurationError, LabTransientError
from lab.host import locks, process
from lab.host.ssh import SshLink
from lab.provision.failures import MediaMissingError, TargetRefusedError
from lab.provision.hubs import hub_of_disk, turn_at
from lab.provision.way import Meter
from lab.provision.ways import blockdevice, blockwriter
from lab.provision.ways.blockdevice import WAITS, BlockDevice, Opener
from lab.provision.ways.hostdisk import Disk, Host

IDLE_S: Final = 120.0
_LOOK_S: Final = 30.0  # a start of `lab` on a loaded host
_NO_PROGRAM: Final = 127  # of the shell that sshd starts
_REFUSALS: Final = {error.failure: error for error in (MediaMissingError, TargetRefusedError)}


def identity_of(path: str) -> str:
    """What udev knows of a disk of this host, in words.

    Raises:
        MediaMissingError: it has gone.
    """
    try:
        properties = pyudev.Devices.from_device_file(pyudev.Context(), path).properties
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
    """What opens a block writer of a disk of this host, and looks again when it has it: what is open gives its name to no other disk."""

    @contextmanager
    def opened(device: str, meter: Meter, *, writable: bool) -> Iterator[BlockDevice]:
        with blockdevice.opened(device, meter, writable=writable) as block:
            expect_same(disk_here(device), disk.identity, disk.size_bytes)
            yield block

    return opened


def expect_same(disk: Disk, identity: str, size_bytes: int) -> None:
    """Whether a disk is the one that was looked at before.

    Raises:
        TargetRefusedError: it is another one.
    """
    if (disk.identity, disk.size_bytes) != (identity, size_bytes):
        raise TargetRefusedError(
            f"{disk.path}: it is another disk than when it was looked at ({disk.identity or 'nothing that udev knows'}, {disk.size_bytes} "
            "bytes); nothing was written"
        )


def looked(path: str) -> str:
    """What `lab farm card PATH` prints."""
    try:
        return json.dumps(asdict(disk_here(path)))
    except BoardlabError as error:
        return json.dumps({"error": str(error), "failure": error.failure})


def serve(path: str, identity: str, size_bytes: int, *, writable: bool) -> str:
    """Be the block writer of a disk that is still the one that was looked at; returns why not, as `looked` does; empty: it was."""
    try:
        disk = disk_here(path)
        expect_same(disk, identity, size_bytes)
        with _turn(path, hub_of_disk(identity)):
            blockwriter.main([disk.path, "--idle", str(IDLE_S), *([] if writable else ["--read-only"])])
    except BoardlabError as error:
        return json.dumps({"error": str(error), "failure": error.failure})
    return ""


def _turn(path: str, hub: str) -> AbstractContextManager[None]:
    """Be the only one who writes or reads at a hub of this host; who waits says for whom on standard output, until nobody listens any more.

    Raises (in the context):
        LabTransientError: whoever wanted to write is gone.
    """
    if not hub:
        return nullcontext()
    asked_from = os.environ.get("SSH_CONNECTION", "here").split()[0]  # sshd's: client, its port, server, its port
    who, others = f"{path} by {process.person()} from {asked_from}", list[str]()

    def waiting() -> None:
        if select.select([0], [], [], 0)[0]:  # no order comes before we say that the device is open
            raise LabTransientError("whoever wanted to write has gone", failure="console_link")
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
                f"`{self.program} farm card {path}` on {self.link.host} did not end within {_LOOK_S:g} s; is that host overloaded?",
                failure="multiplexer_failed",
            ) from error
        try:
            said = json.loads(done.stdout)
            if "error" in said:
                raise _REFUSALS.get(said["failure"], TargetRefusedError)(f"on {self.link.host}: {said['error']}")
            return Disk(said["path"], said["size_bytes"], said["identity"], self.link.host)
        except (ValueError, KeyError, TypeError) as error:
            why = "there is no such program" if done.returncode == _NO_PROGRAM else done.stderr.strip()[-200:]
            raise ConfigurationError(
                f"`{self.program} farm card {path}` on {self.link.host}: {why or 'it said nothing'}. The card is written there by boardlab: install "
                "it, and give MultiplexedCardDriver its path as `program` where ssh does not find it; nothing was written"
            ) from error

    def opened(self, disk: Disk) -> Opener:
        """What opens a block writer there, as `blockdevice.opened` does here."""

        @contextmanager
        def opened(device: str, meter: Meter, *, writable: bool) -> Iterator[BlockDevice]:
            words = [
                self.program,
                "farm",
                "card",
                device,
                "--identity",
                disk.identity,
                "--bytes",
                str(disk.size_bytes),
            ]
            process = self.link.started([*words, "--write" if writable else "--read"])
            with blockdevice.closing(process):
                yield BlockDevice(process, disk.shown, meter, _refusal)

        return opened


def _refusal(line: str) -> BoardlabError | None:
    """What the other host says in place of an answer; None: it is an answer."""
    if not line.startswith("{"):
        return None
    said = json.loads(line)
    return _REFUSALS.get(said["failure"], TargetRefusedError)(str(said["error"]))
