"""A board at U-Boot's prompt: abilities, free memory, and digests."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable
from typing import Final

from attrs import frozen

from lab.errors import ConfigurationError
from lab.provision.writers import ubootanswers as answers
from lab.provision.writers.command import Command, CommandPrompt, carry_out, limit_s

PIECE_BYTES: Final = 16 * 1024 * 1024
_ALIGN: Final = 1024 * 1024
_WORD_BYTES: Final = 4  # of `mw.l`


@frozen
class Session:
    """A board at its U-Boot prompt.

    memory: begin and end of the free memory.
    """

    prompt: CommandPrompt
    has_hash: bool
    memory: tuple[int, int]

    @classmethod
    def begin(cls, prompt: CommandPrompt) -> Session:
        """Ask U-Boot what it can do, and where its memory is free.

        Raises:
            BoardlabError: it does not answer, or tells of no memory.
        """
        asked, _, _ = prompt.run("help hash", timeout=30.0)
        base, end = answers.ram(carry_out(prompt, Command("bdinfo", answers.done("bdinfo"))))
        begin = base + (end - base) // 4  # below lies what U-Boot's own scripts load, and on some boards the firmware
        return cls(prompt, answers.has_command(asked), (begin, end))

    @property
    def address(self) -> int:
        """Load address of pieces."""
        return -(-self.memory[0] // _ALIGN) * _ALIGN

    @property
    def back(self) -> int:
        """Read-back address, behind the largest loaded piece.

        A read that moves nothing finds other data there.
        """
        return self.address + min(PIECE_BYTES, (self.memory[1] - self.address) // 2) // _ALIGN * _ALIGN

    def most(self, align: int) -> int:
        """Largest piece that fits into the memory twice.

        One copy is loaded, one is read back.

        Raises:
            ConfigurationError: not even one block fits.
        """
        room = (self.memory[1] - self.address) // 2
        most = min(PIECE_BYTES, room) // max(align, _ALIGN) * max(align, _ALIGN)
        if most <= 0:
            raise ConfigurationError(f"U-Boot has {room} bytes of free memory, and a block of the medium has {align}")
        return most

    def compare(self, data: bytes, what: str, address: int | None = None, *, quick: bool = False) -> None:
        """Have the board compute the digest of what is in its memory.

        Args:
            quick: by CRC-32, which sees what a transfer does to bytes, and takes a fraction of the time.

        Raises:
            MediaVerifyFailedError: it is another one.
        """
        of = address or self.address, len(data)
        at = f"{of[0]:#x} {of[1]:#x}"
        if self.has_hash and not quick:  # `hash` ends its answer without a line's end
            command = Command(
                f"hash sha256 {at} && echo",
                answers.digest_is(hashlib.sha256(data).hexdigest(), what, of),
                limit_s(len(data)),
            )
        else:
            command = Command(
                f"crc32 {at}", answers.digest_is(f"{zlib.crc32(data):08x}", what, of), limit_s(len(data))
            )
        carry_out(self.prompt, command)

    def spoil(self, data: bytes, address: int) -> None:
        """Overwrite the destination of `data`, so that a missing transfer is found.

        The memory of a powered board still has the data of an earlier comparison.
        """
        other = f"{data[0] ^ 0xFF:02x}" * _WORD_BYTES
        text = f"mw.l {address:#x} 0x{other} {-(-len(data) // _WORD_BYTES):#x}"
        carry_out(self.prompt, Command(text, answers.done(text), limit_s(len(data))))

    def run(self, commands: Iterable[Command]) -> None:
        """Carry out commands, each judged by its answer.

        Raises:
            BoardlabError: as of `carry_out`.
        """
        for command in commands:
            carry_out(self.prompt, command)
