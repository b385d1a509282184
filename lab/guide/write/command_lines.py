"""Commands of a table's numbers as a guide prints them.

They stand without the lab's own shell around them, and alike ones in one line:
`bw_mem 1M rd 2>&1` and `bw_mem 2M rd 2>&1` are `bw_mem {1M|2M} rd`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Final

_REDIRECTION: Final = re.compile(r"\s+(?:[12]?>\s*(?:/run/boardlab\S*|/dev/null)|2>&1)(?=[\s;]|$)")
_SEPARATORS: Final = frozenset({";", "&&", "&"})
_SEPARATOR: Final = re.compile(r"(?<=\S)\s*(;|&&|&)(?=\s|$)\s*")
_OWN: Final = re.compile(  # what the lab's sections add to keep outputs apart, count packets and pass a status on
    r"wait \$!|\w+=\$[?!]?\w*|cat(?: /run/boardlab\S*)+|rm -f(?: /run/boardlab\S*)+|\(exit \S+\)|test \$.*|"
    r"echo packets (?:before|after) .*"
)


def merge_commands(commands: Iterable[str]) -> tuple[str, ...]:
    """Lines that stand for some commands, in order of appearance."""
    groups: dict[tuple[str, ...], dict[tuple[str, ...], None]] = {}
    for words in map(_without_own, commands):
        fixed_parts = tuple(_fixed_part(before, word) for before, word in itertools.pairwise([";", *words]))
        groups.setdefault(fixed_parts, {})[words] = None
    return tuple(
        " ".join(map(_alternatives, fixed_parts, zip(*members, strict=True))).replace(" ;", ";")
        for fixed_parts, members in groups.items()
    )


def _without_own(command: str) -> tuple[str, ...]:
    """The words and separators of a command, without what the lab added."""
    parts = ["", *_SEPARATOR.split(_REDIRECTION.sub("", command))]
    words: list[str] = []
    for separator, part in zip(parts[::2], parts[1::2], strict=True):
        if part and not _OWN.fullmatch(part):
            words += [separator, *part.split()] if words else part.split()
    return tuple(words)


def _fixed_part(before: str, word: str) -> str:
    """The part of a word that alike commands share, e.g. an option."""
    if word in _SEPARATORS or before in _SEPARATORS or before.endswith(":"):
        return word
    name, equals, _ = word.partition("=")
    return f"{name}{equals}" if equals or name.startswith("-") else ""


def _alternatives(fixed_part: str, words: Sequence[str]) -> str:
    values = tuple(dict.fromkeys(word.removeprefix(fixed_part) for word in words))
    return fixed_part + (values[0] if len(values) == 1 else f"{{{'|'.join(values)}}}")
