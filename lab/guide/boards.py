"""Evaluation module of a board: "am62xx_lp_sk-fs" is "AM62x LP SK"."""

from __future__ import annotations

import functools
import re

from lab.guide.model import Guide, Module

_SIMULATED = "-sim"
_SECURITY = re.compile(rf"(-(fs|se|gp|hs)|{_SIMULATED})$")  # how the device boots, not which board it is
_WORDS = re.compile(r"[a-z]+\d+[a-z0-9]*|[a-z]+")


def module_of(guide: Guide, board: str) -> Module | None:
    """Return the module of a board; None unless exactly one fits.

    The words of both names decide; a guide with one board and one module needs none.
    """
    if len(guide.modules) == 1 and len(guide.boards) == 1:
        return guide.modules[0]
    for words in (_words, _first_word):
        fitting = [module for module in guide.modules if words(module.name) == words(board)]
        if len(fitting) == 1 and sum(words(other) == words(board) for other in guide.boards) == 1:
            return fitting[0]
    return None


def type_of(board: str) -> str:
    """Return the board type: "am62xx_sk-fs" and "am62xx_sk-se" give "am62xx_sk"."""
    return _SECURITY.sub("", board)


def simulated(board_type: str) -> str:
    """Return the column name of simulated boards of a type: "am62xx_sk-sim"."""
    return board_type + _SIMULATED


@functools.lru_cache(maxsize=256)
def product_of(board: str | None) -> str:
    """Return the device of a board: "am62xx_lp_sk-fs" gives "am62".

    "am62xxsip_sk-fs" gives "am62" too, "am62pxx_sk-fs" gives "am62p". Boards of different products are never compared.
    A package with memory inside (SIP) is no other product.
    """
    words = _words(board or "")
    letter = words[1] if len(words) > 1 and re.fullmatch(r"[a-z]\d?", words[1]) else ""
    return (words[0] if words else "") + letter


def is_product(name: str) -> bool:
    """Return whether a name is that of a device, such as "AM62x".

    "am62xx_sk-fs" and "sk" are no devices.
    """
    return re.fullmatch(r"[a-z]+\d+[a-z0-9]*", name.lower()) is not None


def _words(name: str) -> tuple[str, ...]:
    """Split a name into words.

    Device letters after the number are words of their own; an x is a placeholder.
    """
    lower = _SECURITY.sub("", name.lower()).replace("_", " ").replace("-", " ")
    return tuple(word for part in _WORDS.findall(lower) for word in _device(part))


def _device(word: str) -> tuple[str, ...]:
    match = re.fullmatch(r"([a-z]+\d+)x*([a-z]?[a-z0-9]*?)x*", word)
    if not match or not match[2]:
        return (match[1] if match else word,)
    return (match[1], match[2])


def _first_word(name: str) -> tuple[str, ...]:
    return _words(name)[:1]
