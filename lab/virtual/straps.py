"""Boot-mode straps: one file per line with "0" or "1"."""

from __future__ import annotations

from pathlib import Path

from lab.errors import LabStableError


def path(folder: Path, bit: int) -> Path:
    """The file of a strap line; bit 0 is the lowest."""
    return folder / f"bit{bit}"


def create(folder: Path, bits: int) -> None:
    """Make the missing files of `bits` lines, all low."""
    folder.mkdir(parents=True, exist_ok=True)
    for bit in range(bits):
        if not path(folder, bit).exists():
            path(folder, bit).write_text("0\n")


def begin(folder: Path, bits: int, word: int, *, fresh: bool) -> None:
    """Make the files of `bits` lines with the levels of `word`.

    Existing ones keep theirs, unless `fresh`.
    """
    if fresh or not path(folder, 0).exists():
        create(folder, bits)
        for bit in range(bits):
            write(folder, bit, high=bool(word >> bit & 1))


def write(folder: Path, bit: int, *, high: bool) -> None:
    """Put a line high or low."""
    path(folder, bit).write_text("1\n" if high else "0\n", encoding="ascii")


def read(folder: Path, bits: int) -> int:
    """The strap word.

    Raises:
        LabStableError: a file is missing or holds neither 0 nor 1.
    """
    word = 0
    for bit in range(bits):
        file = path(folder, bit)
        try:
            level = file.read_text(encoding="ascii", errors="replace").strip()
        except OSError as error:
            raise LabStableError(f"{file}: cannot read the strap: {error.strerror}; write 0 or 1 to it") from error
        if level not in {"0", "1"}:
            raise LabStableError(f"{file}: expected 0 or 1, found {level[:20]!r}; write 0 or 1 to it")
        word |= int(level) << bit
    return word
