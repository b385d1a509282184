"""USB device port of a simulated board: DFU and fastboot.

ROM and SPL have DFU, U-Boot has fastboot.

The USB host's stand-in calls `control` and `bulk`; the board's programs answer in their own time. The class requests
of USB DFU 1.1 and the packets of fastboot's protocol are played; enumeration and timing of USB are not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from attrs import define, field

from lab.virtual.sim.program import Hear, Program

PORT = "usb"  # its name for the board's programs
DNLOAD, GETSTATUS, CLRSTATUS, ABORT = 1, 3, 4, 6  # bRequest of USB DFU 1.1, 3
IDLE, DNLOAD_IDLE, MANIFEST_WAIT, ERROR = 2, 5, 8, 10  # bState of 6.1.2
_BAD_FILE = 0x02  # errFILE


class StallError(Exception):
    """The device refuses a request, or is not there."""


def _deaf(_data: bytes) -> None: ...


@define(eq=False)
class UsbPort:
    """The port and what is on it now.

    Attributes:
        alternates: the DFU targets that the device offers; none: it offers no DFU.
        fastboot: it speaks fastboot.
        notify: tells the board that something came.
    """

    notify: Callable[[bytes], None] = _deaf
    alternates: tuple[str, ...] = ()
    fastboot: bool = False
    packets: deque[bytes] = field(factory=deque, init=False)
    answers: deque[bytes] = field(factory=deque, init=False)
    _data: bytearray = field(factory=bytearray, init=False)
    _block: int = field(default=0, init=False)
    _state: int = field(default=IDLE, init=False)
    _done: bool = field(default=False, init=False)

    def unplug(self) -> None:
        """The board lost its power, or started anew."""
        self.alternates, self.fastboot, self._done = (), False, False
        self._data.clear()
        self.packets.clear()
        self.answers.clear()
        self._state = IDLE

    def control(self, request: int, value: int, data: bytes = b"") -> bytes:
        """A DFU class request.

        Raises:
            StallError: it does not fit.
        """
        if not self.alternates:
            raise StallError("no DFU device")
        if request == GETSTATUS:
            return bytes([_BAD_FILE if self._state == ERROR else 0, 0, 0, 0, self._state, 0])
        if request in {CLRSTATUS, ABORT}:
            self._begin()
        elif request == DNLOAD and data and self._state in {IDLE, DNLOAD_IDLE} and value == self._block & 0xFFFF:
            self._data += data
            self._block += 1
            self._state = DNLOAD_IDLE
        elif request == DNLOAD and not data and self._state == DNLOAD_IDLE:
            self._state, self._done = MANIFEST_WAIT, True
            self.notify(b"\x01")
        else:
            state, self._state = self._state, ERROR
            raise StallError(f"request {request} does not fit state {state}")
        return b""

    def bulk(self, packet: bytes) -> None:
        """A packet of fastboot's.

        Raises:
            StallError: nobody takes it.
        """
        if not self.fastboot:
            raise StallError("no fastboot device")
        self.packets.append(packet)
        self.notify(b"\x01")

    def downloaded(self, *targets: str) -> Program[bytes]:
        """Offer these DFU targets until a file came in."""
        self._begin()
        self.alternates = targets
        while not self._done:
            yield Hear((PORT,))
        self.alternates = ()
        return bytes(self._data)

    def _begin(self) -> None:
        self._data.clear()
        self._block, self._state, self._done = 0, IDLE, False
