"""Writer of the card of an SD multiplexer, at its host."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import attr
from labgrid.binding import BindingState
from labgrid.driver import Driver
from labgrid.factory import target_factory
from labgrid.step import step

from lab.drivers import guarded_calls
from lab.drivers.guarded_calls import MULTIPLEXER, SWITCH_LIMIT_S
from lab.host.runtime import prepare, runtime_dir
from lab.host.ssh import SshLink
from lab.host.tcp import is_loopback
from lab.provision.errors import MediaMissingError, MultiplexerFailedError, TargetRefusedError
from lab.provision.writer import ProvisionProtocol, Writer
from lab.provision.writers.blockdevice import STALL_S, Opener
from lab.provision.writers.sd_mux import CardHost, CardWriter, Disk, check_identity, disk_here, opener_here

_GIB: Final = 1 << 30
_MEDIUM_S: Final = 15.0  # until the host knows a card that was switched to it
_LOOK_S: Final = 0.25
# In the words of each tool
_PLACES: Final = {"ts": "host", "host": "host", "dut": "dut", "client": "dut", "off": "off"}


@target_factory.reg_driver
@attr.s(eq=False)
class MultiplexedCardDriver(Driver, ProvisionProtocol):
    """MultiplexedCardDriver - writes the card of an SD multiplexer

    The board is off and the card at the host meanwhile.

    Args:
        medium (str): the card's name among the board type's media
        id_path (str): the card reader's ID_PATH or ID_SERIAL, as `udevadm info` has it; empty: that of the
            multiplexer's resource
        smallest_gib (float): a card that is smaller is not the board's
        largest_gib (float): a disk that is larger is not the board's
        stall_s (float): a write without progress for so long is ended
        program (str): the command `lab` on the host of the multiplexer, where that is another one
    """

    bindings = {
        "mux": {"USBSDMuxDriver", "USBSDWireDriver", "USBSDWire3Driver", "VirtualSDMuxDriver"},
        "storage": {"USBStorageDriver", None},
    }

    medium: str = attr.ib(default="sd", validator=attr.validators.instance_of(str))
    id_path: str = attr.ib(default="", validator=attr.validators.instance_of(str))
    smallest_gib: float = attr.ib(default=0.0, converter=float)
    largest_gib: float = attr.ib(default=256.0, converter=float)
    stall_s: float = attr.ib(default=STALL_S, converter=float)
    program: str = attr.ib(default="lab", validator=attr.validators.instance_of(str))

    def writers(self, strategy: Any) -> Mapping[str, Writer]:
        return {
            self.medium: CardWriter(
                "sd-mux", partial(self._at_host, strategy), stall_s=self.stall_s, opener=self._opener
            )
        }

    @contextmanager
    def _at_host(self, strategy: Any) -> Iterator[Disk]:
        strategy.transition("off")
        if self.state is not BindingState.active:
            guarded_calls.call(
                self, MULTIPLEXER, "activate", lambda: self.target.activate(self), guarded_calls.ACTIVATE_LIMIT_S
            )
        try:
            self.switch("host")
            yield self._disk()
            if self.position() != "host":
                raise MultiplexerFailedError(
                    "the multiplexer left the host while the card was written; does another program use it?"
                )
        finally:
            self.switch("dut")

    @step(args=["place"])
    def switch(self, place: str) -> None:
        """Move the card to the host or the board ("dut"), verified.

        Raises:
            MultiplexerFailedError: it is not there. LabError: the multiplexer does not answer.
        """
        self._check_mux()
        guarded_calls.call(
            self.mux, MULTIPLEXER, f"switch to {place}", lambda: self.mux.set_mode(place), SWITCH_LIMIT_S
        )
        position = self.position()
        if position != place:
            raise MultiplexerFailedError(
                f"SD multiplexer {guarded_calls.describe(self.mux)} was switched to {place!r} and says {position!r}: "
                "is its USB cable in, and its number in the env right?"
            )

    def position(self) -> str:
        """Position of the card: "host", "dut", "off", or the tool's word."""
        self._check_mux()
        output = guarded_calls.call(self.mux, MULTIPLEXER, "ask for its position", self.mux.get_mode, SWITCH_LIMIT_S)
        word = str(output).strip().rpartition(" ")[2].strip().lower()
        return _PLACES.get(word, word)

    def _check_mux(self) -> None:
        if hasattr(self.mux.mux, "control_path"):
            guarded_calls.current_node(self.mux.mux, "control_path", MULTIPLEXER)

    def _disk(self) -> Disk:
        resource = self.storage.storage if self.storage is not None else self.mux.mux
        deadline = time.monotonic() + _MEDIUM_S
        while True:
            try:
                disk = self._find_disk(resource)
            except MediaMissingError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_LOOK_S)
                self.target.update_resources()
            else:
                check_identity(disk, smallest=round(self.smallest_gib * _GIB), largest=round(self.largest_gib * _GIB))
                return disk

    def _find_disk(self, resource: Any) -> Disk:
        if hasattr(resource, "image"):
            image: Disk = resource.disk()
            return image
        path = guarded_calls.current_node(resource, "path", MULTIPLEXER)
        if path is None:
            raise MediaMissingError(
                f"{type(resource).__name__}: the host sees no card. Is it in, and the multiplexer's USB cable?"
            )
        there = self._there(str(getattr(resource, "host", "") or ""))
        disk = disk_here(path) if there is None else there.disk(path)
        if self.id_path and self.id_path not in disk.identity.split():
            raise TargetRefusedError(
                f"{disk.label}: it is {disk.identity or 'nothing that udev knows'}, and the env says {self.id_path}; "
                "nothing was written. Is the reader on another socket, or does the env name another one?"
            )
        return disk

    def _there(self, host: str) -> CardHost | None:
        """The other host that has the card; None: it is this one."""
        if not host or is_loopback(host):
            return None
        return CardHost(SshLink.to(host, prepare(runtime_dir())), self.program)

    def _opener(self, disk: Disk) -> Opener | None:
        there = self._there(disk.host)
        if there is not None:
            return there.open_writer(disk)
        return opener_here(disk) if Path(disk.path).is_block_device() else None
