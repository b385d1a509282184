"""Bytes with addresses: a memory, a card, a flash. Only what was written is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

PAGE_BYTES: Final = 4096
_LETTERS: Final = hashlib.sha256().digest_size
# A page's bytes, or the name of its contents where nobody has looked at them one by one.
Page: TypeAlias = bytes | str


def _bytes(page: Page) -> bytes:
    """A named page's bytes: the same for the same name, and unlike those of another."""
    if isinstance(page, bytes):
        return page
    return hashlib.sha256(page.encode()).digest() * (PAGE_BYTES // _LETTERS)


class Space:
    """Bytes from 0 on; whole pages are copied without looking at them, so that 64 MiB cost nothing.

    Args:
        name: of what stands in pages that nobody has written, if they are not blank.
        blank: the byte of all pages that nobody has written; None: their bytes follow from `name`.
    """

    def __init__(self, name: str, blank: int | None = None) -> None:
        self._name, self._blank = name, blank
        self._pages: dict[int, Page] = {}

    def touched(self, offset: int, size: int) -> bool:
        """Whether anything was ever written there."""
        return any(number in self._pages for number in _numbers(offset, size))

    def read(self, offset: int, size: int) -> bytes:
        """The bytes there."""
        first = offset // PAGE_BYTES
        whole = b"".join(_bytes(self._page(number)) for number in _numbers(offset, size))
        return whole[offset - first * PAGE_BYTES :][:size]

    def write(self, offset: int, data: bytes) -> None:
        """Put bytes there."""
        done = 0
        for number in _numbers(offset, len(data)):
            start = offset + done - number * PAGE_BYTES
            part = data[done : done + PAGE_BYTES - start]
            if len(part) < PAGE_BYTES:
                old = _bytes(self._page(number))
                part = old[:start] + part + old[start + len(part) :]
            done += PAGE_BYTES - start
            self._pages[number] = bytes(part)

    def fill(self, offset: int, size: int, byte: int) -> None:
        """Put the same byte everywhere there, as an erase does."""
        first, last = -(-offset // PAGE_BYTES), (offset + size) // PAGE_BYTES
        if first >= last:
            self.write(offset, bytes([byte]) * size)
            return
        whole = bytes([byte]) * PAGE_BYTES
        self._pages |= dict.fromkeys(range(first, last), whole)
        self.write(offset, bytes([byte]) * (first * PAGE_BYTES - offset))
        self.write(last * PAGE_BYTES, bytes([byte]) * (offset + size - last * PAGE_BYTES))

    def copy(self, offset: int, source: Space, start: int, size: int) -> None:
        """Put there what stands in another space."""
        if offset % PAGE_BYTES or start % PAGE_BYTES:
            self.write(offset, source.read(start, size))
            return
        pages = size // PAGE_BYTES
        there, here = start // PAGE_BYTES, offset // PAGE_BYTES
        self._pages |= {here + number: source._page(there + number) for number in range(pages)}
        done = pages * PAGE_BYTES
        if done < size:
            self.write(offset + done, source.read(start + done, size - done))

    def program(self, offset: int, source: Space, start: int, size: int) -> None:
        """The same for flash: a bit that was not erased stays 0."""
        erased = bytes([0xFF]) * PAGE_BYTES
        if all(self._page(number) == erased for number in _numbers(offset, size)):
            self.copy(offset, source, start, size)
            return
        old, new = int.from_bytes(self.read(offset, size), "big"), int.from_bytes(source.read(start, size), "big")
        self.write(offset, (old & new).to_bytes(size, "big"))

    def differs_at(self, offset: int, other: Space, start: int, size: int) -> int | None:
        """How many bytes from the beginning the first different byte is; None: there is none."""
        step = PAGE_BYTES
        for done in range(0, size, step):
            count = min(step, size - done)
            left, right = self.read(offset + done, count), other.read(start + done, count)
            if left != right:
                return done + next(i for i in range(count) if left[i] != right[i])
        return None

    def digest(self, but: Iterable[tuple[int, int]] = ()) -> str:
        """SHA-256 of all that was ever written and differs from what stood there at first.

        Args:
            but: offset and size of what does not count, rounded outwards to pages.
        """
        apart = {number for offset, size in but for number in _numbers(offset, size)}
        found = hashlib.sha256()
        for number in sorted(self._pages.keys() - apart):
            data = _bytes(self._pages[number])
            if data != _bytes(self._first(number)):
                found.update(number.to_bytes(8, "big") + data)
        return found.hexdigest()

    def _page(self, number: int) -> Page:
        return self._pages.get(number, self._first(number))

    def _first(self, number: int) -> Page:
        return f"{self._name}:{number}" if self._blank is None else bytes([self._blank]) * PAGE_BYTES


def _numbers(offset: int, size: int) -> Iterator[int]:
    """The pages that a range touches."""
    return iter(range(offset // PAGE_BYTES, -(-(offset + size) // PAGE_BYTES) if size > 0 else offset // PAGE_BYTES))
