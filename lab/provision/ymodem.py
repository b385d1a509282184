"""Sender of XMODEM-1K and YMODEM over a shared console.

Frames: Chuck Forsberg, "XMODEM/YMODEM Protocol Reference" (1988), with CRC-16. labgrid's library `xmodem` knows no
YMODEM, takes the `C` that a waiting receiver repeats for a damaged answer, and does not say why it gave up.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from attrs import frozen

from lab.provision.errors import RecoveryFailedError, WriteStalledError

BLOCK_BYTES: Final = 1024
BITS_PER_BYTE: Final = 10
_SOH, _STX, _EOT, _ACK, _NAK, _CAN, _ASK, _PAD = b"\x01", b"\x02", b"\x04", b"\x06", b"\x15", b"\x18", b"C", b"\x1a"
_HEADER_BYTES: Final = 128
_QUIET_S: Final = 0.2  # a receiver that asks says nothing more for about a second; text goes on
_ANSWER_S: Final = 15.0  # a receiver that missed a block asks again after about 10 s
_FAREWELL_S: Final = 2.0
_TRIES: Final = 10
# The `C` of a receiver stands alone at the end; that of a word does not, nor is it followed by silence.
_ASKS: Final = re.compile(rb"(?:^|[\r\n])C+$|CC$")
_ROM_ASKS: Final = re.compile(rb"C$")  # a ROM puts it behind its digits
# SPL and U-Boot say something first; a ROM that refused only asks again
_INTRODUCED: Final = re.compile(rb"[ -BD-~]{6}")
_CONTROLS: Final = b"\r\n\x06\x15"
_SHOWN_BYTES: Final = 120

Sent: TypeAlias = Callable[[int], None]
"""Told how many bytes have arrived."""


class YmodemLine(Protocol):
    """A console that can be read and written."""

    def read(self, timeout_s: float) -> bytes:
        """Wait for bytes and return them; empty: none came in time."""

    def write(self, data: bytes) -> None:
        """Send."""

    def now_ns(self) -> int:
        """A clock that only goes forward."""


@frozen
class Sending:
    """One file that goes over a console.

    Attributes:
        line: the console.
        data: the file's bytes.
        name: as errors and YMODEM call it.
        batch: YMODEM: the receiver is told name and size; False: XMODEM, as a ROM takes it.
    """

    line: YmodemLine
    data: bytes
    name: str
    batch: bool = True

    def send(self, asked_within_s: float, sent: Sent = lambda _count: None) -> None:
        """Wait until the receiver asks, and send.

        Args:
            asked_within_s: how long it may take until it asks.

        Raises:
            RecoveryFailedError: nobody asks, or the receiver refuses.
            WriteStalledError: it stopped answering.
        """
        self._await_question(asked_within_s)
        number = 1
        if self.batch:
            header = f"{self.name}\0{len(self.data)}".encode().ljust(_HEADER_BYTES, b"\0")
            self._deliver(0, header[:_HEADER_BYTES], 0)
        for start in range(0, len(self.data), BLOCK_BYTES):
            block = self.data[start : start + BLOCK_BYTES].ljust(BLOCK_BYTES, _PAD)
            self._deliver(number, block, start)
            number += 1
            sent(min(start + BLOCK_BYTES, len(self.data)))
        size = len(self.data)
        for _ in range(_TRIES):
            self.line.write(_EOT)
            if (behind := self._await_answer(size)) is not None:
                break
        else:
            raise RecoveryFailedError(f"{self.name}: all {size} bytes arrived, and the board does not take their end")
        # The question for another file stands right behind the end of the last one, or comes soon.
        if self.batch and (behind or self.line.read(_FAREWELL_S))[:1] == _ASK:
            empty = bytes(_HEADER_BYTES)
            self.line.write(_SOH + b"\x00\xff" + empty + binascii.crc_hqx(empty, 0).to_bytes(2, "big"))

    def _await_question(self, within_s: float) -> None:
        """Wait until the receiver asks for the file.

        It asks with `C`, and nothing behind it.

        Raises:
            RecoveryFailedError: it does not ask in time, or asks again for what it refused.
        """
        received, pattern = b"", _ASKS if self.batch else _ROM_ASKS
        deadline = self.line.now_ns() + round(within_s * 1e9)
        while (remaining_s := (deadline - self.line.now_ns()) / 1e9) > 0:
            asks = pattern.search(received) and (not self.batch or _INTRODUCED.search(received))
            came = self.line.read(min(remaining_s, _QUIET_S) if asks else remaining_s)
            if not came and asks:
                return
            received += came
        tail = received[-_SHOWN_BYTES:].decode("latin-1").strip()
        if self.batch and received.strip(_CONTROLS) and not received.strip(_CONTROLS + _ASK):
            raise RecoveryFailedError(
                f"{self.name}: the board's ROM asks again for what it got before, so it refused that: is it damaged, "
                "or for another board type or security state?"
            )
        raise RecoveryFailedError(
            f"{self.name}: the receiver did not ask for it within {within_s:g} s; "
            + (f"the last that came was {tail!r}" if tail else "the console said nothing")
            + ". Do the boot-mode switches select UART, is the console the UART that the ROM uses, and is the stage "
            "that was sent before of this board's type and security state?"
        )

    def _deliver(self, number: int, block: bytes, done: int) -> None:
        """Send a block until the receiver takes it.

        Args:
            number: of the block; the frame has its lowest byte.
            done: bytes of the file before it, for messages.

        Raises:
            RecoveryFailedError: the receiver refuses it again and again, or cancels.
            WriteStalledError: it stopped answering.
        """
        kind = _STX if len(block) == BLOCK_BYTES else _SOH
        frame = kind + bytes([number & 0xFF, ~number & 0xFF]) + block + binascii.crc_hqx(block, 0).to_bytes(2, "big")
        for _ in range(_TRIES):
            self.line.write(frame)
            if self._await_answer(done) is not None:
                return
        raise RecoveryFailedError(
            f"{self.name}: the board refused {_TRIES} times what begins at byte {done} of {len(self.data)}: does the "
            "line lose or damage bytes? `lab console check` looks"
        )

    def _await_answer(self, done: int) -> bytes | None:
        """Wait for the last block's answer, and return the bytes behind it.

        None: the block is wanted again.
        """
        cancels = 0
        deadline = self.line.now_ns() + round(_ANSWER_S * 1e9)
        while (remaining_s := (deadline - self.line.now_ns()) / 1e9) > 0:
            came = self.line.read(remaining_s)
            for end, byte in enumerate(came, start=1):
                cancels = cancels + 1 if byte == _CAN[0] else 0
                if byte == _ACK[0]:
                    return came[end:]
                if byte == _NAK[0]:
                    return None
                if cancels == 2:
                    raise RecoveryFailedError(
                        f"{self.name}: the board cancelled after {done} of {len(self.data)} bytes: is the file for it?"
                    )
        raise WriteStalledError(
            f"{self.name}: the board did not answer for {_ANSWER_S:g} s after {done} of {len(self.data)} bytes. The "
            "next try switches it off and on and begins anew"
        )
