"""What may stand in a release file: names, digests, sources, words of commands. Each is a validator of attrs, and raises ValueError."""

from __future__ import annotations

import re
from typing import Any, Final

URLS: Final = ("http://", "https://")
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.+-]{0,99}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_PART: Final = re.compile(r"[\w][\w.+-]*")
_WORD: Final = re.compile(r"[\w./:+-]*", re.ASCII)


def check_name(name: str) -> None:
    """Whether a release can be called so.

    Raises:
        ValueError: it cannot.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"name: {name!r:.80}: letters, digits and . + - _ only, as it is the label of runs")


def digest(_instance: object, attribute: Any, value: str) -> None:
    """A SHA-256, or nothing."""
    if value and not _SHA256.fullmatch(value):
        raise ValueError(
            f"{attribute.name}: {value!r:.80}: expected the 64 small hexadecimal digits that sha256sum prints"
        )


def given_digest(instance: object, attribute: Any, value: str) -> None:
    """A SHA-256."""
    if not value:
        raise ValueError(f"{attribute.name} is missing; `sha256sum FILE` prints it")
    digest(instance, attribute, value)


def part_name(_instance: object, attribute: Any, value: str) -> None:
    """The name of a file, without a folder."""
    if not _PART.fullmatch(value):
        raise ValueError(f"{attribute.name}: {value!r:.80}: expected the name of a file, e.g. tispl.bin")


def word(_instance: object, attribute: Any, value: str) -> None:
    """What becomes part of a command on the board."""
    if not _WORD.fullmatch(value):
        raise ValueError(f"{attribute.name}: {value!r:.80}: letters, digits and . / : + - _ only")


def source(_instance: object, attribute: Any, value: str) -> None:
    """A path or a URL. What is refused is not shown: it may hold a password where no URL is looked for."""
    if not value or not value.isprintable():
        raise ValueError(f"{attribute.name}: expected a path or a URL, on one line")
    if "://" in value and not value.startswith(URLS):
        raise ValueError(
            f"{attribute.name}: {value.partition('://')[0]!r:.20} is fetched by nothing: expected a path, or a URL that begins with http:// or "
            "https:// in small letters"
        )


def optional_source(instance: object, attribute: Any, value: str) -> None:
    """The same, or nothing."""
    if value:
        source(instance, attribute, value)
