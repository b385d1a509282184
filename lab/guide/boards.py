"""Which evaluation module a board of the headers is: "am62xx_lp_sk-fs" is "AM62x LP SK"."""

from __future__ import annotations

import functools
import re

from lab.guide.model import Guide, Module

_SECURITY = re.compile(r"-(fs|se|gp|hs)$")  # how the device boots, not which board it is
_WORDS = re.compile(r"[a-z]+\d+[a-z0-9]*|[a-z]+")


def module_of(guide: Guide, board: str) -> Module | None:
    """The module that a board is, if exactly one fits by its words or if the guide has one board and one module."""
    if len(guide.modules) == 1 and len(guide.boards) == 1:
        return guide.modules[0]
    for words in (_words, _first_word):
        fitting = [module for module in guide.modules if words(module.name) == words(board)]
        if len(fitting) == 1 and sum(words(other) == words(board) for other in guide.boards) == 1:
            return fitting[0]
    return None


def type_of(board: str) -> str:
    """The board type: the name without how the device boots. "am62xx_sk-fs" and "am62xx_sk-se" are "am62xx_sk"."""
    return _SECURITY.sub("", board)


@functools.lru_cache(maxsize=256)
def product_of(board: str | None) -> str:
    """The device that a board carries: "am62xx_lp_sk-fs" and "am62xxsip_sk-fs" are of "am62", "am62pxx_sk-fs" of "am62p".

    Boards of different products are never compared. A package with memory inside (SIP) is no other product.
    """
    words = _words(board or "")
    letter = words[1] if len(words) > 1 and re.fullmatch(r"[a-z]\d?", words[1]) else ""
    return (words[0] if words else "") + letter


def is_product(name: str) -> bool:
    """Whether a name is of a device and nothing else: "AM62x" and "am62", not "am62xx_sk-fs" and "sk"."""
    return re.fullmatch(r"[a-z]+\d+[a-z0-9]*", name.lower()) is not None


def _words(name: str) -> tuple[str, ...]:
    """The words of a name: device letters after the number stand alone, and an x is a placeholder."""
    lower = _SECURITY.sub("", name.lower()).replace("_", " ").replace("-", " ")
    return tuple(word for part in _WORDS.findall(lower) for word in _device(part))


def _device(word: str) -> tuple[str, ...]:
    match = re.fullmatch(r"([a-z]+\d+)x*([a-z]?[a-z0-9]*?)x*", word)
    if not match or not match[2]:
        return (match[1] if match else word,)
    return (match[1], match[2])


def _first_word(name: str) -> tuple[str, ...]:
    return _words(name)[:1]
