"""Names of boards, their modules and devices: "am62xx_lp_sk-fs" is "AM62x LP SK" with an "am62"."""

from __future__ import annotations

import functools
import re
import tomllib
from importlib import resources
from pathlib import Path

from attrs import frozen

from lab.guide.model import Guide, Module

_SIMULATED = "-sim"
_SECURITY = re.compile(rf"(-(fs|se|gp|hs)|{_SIMULATED})$")  # how the device boots, not which board it is
_WORDS = re.compile(r"[a-z]+\d+[a-z0-9]*|[a-z]+")
# A device as vendors name theirs: some letters, a number that is no year, perhaps more letters.
_DEVICE = re.compile(
    r"(?<![a-z0-9])([a-z]{1,4}(?!(?:19|20)\d\d)\d{2,4}[a-z]{0,3}\d?[a-z]?)(?![a-z0-9])", re.IGNORECASE
)
# Words of that spelling that are none: versions, parts of a document, files, interfaces.
_NO_DEVICE = re.compile(
    r"(?:v|r|rev|rc|ver|sdk|psdk|run|git|py|utf|page|part|file|test|tmp|ch|sec|h|id|ext|usb|ddr|mp|md|db)\d.*", re.I
)
_FOLDERS = 3  # above a guide's file whose names may name its device


@frozen
class NameSource:
    """A name and its source: "given", "modules", "title", "file name" or "folder"."""

    name: str
    source: str


def module_of(guide: Guide, board: str) -> Module | None:
    """Return the module of a board; None unless exactly one fits.

    The words of both names decide; a guide with one board and one module needs none.
    """
    if len(guide.modules) == 1 and len(guide.boards) == 1:
        return guide.modules[0]
    for words in (_words, lambda name: _words(name)[:1]):
        fitting = [module for module in guide.modules if words(module.name) == words(board)]
        if len(fitting) == 1 and sum(words(other) == words(board) for other in guide.boards) == 1:
            return fitting[0]
    return None


def find_device(guide: Guide, path: Path) -> NameSource | None:
    """Device of all tables of a guide.

    The nearest place that names a device decides; None if it names several.
    """
    places = [
        (" ".join(module.name for module in guide.modules), "modules"),
        (guide.title, "title"),
        (path.stem.replace("_", " "), "file name"),
        *((folder.replace("_", " "), "folder") for folder in path.resolve().parts[-2 : -2 - _FOLDERS : -1]),
    ]
    for text, source in places:
        devices = {match.lower() for match in _DEVICE.findall(text) if not _NO_DEVICE.fullmatch(match)}
        if len(devices) == 1:
            return NameSource(devices.pop(), source)
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
    device, *others = _words(board or "") or ("",)
    # A letter is of the device's name (am62p); longer words are of the package or the board (sip, lp, sk).
    variant = others[0] if others and re.fullmatch(r"[a-z]\d?", others[0]) else ""
    return device + variant


def cores_of(board: str | None) -> int | None:
    """Number of application cores of a board, by cores.toml; None: not known."""
    return _cores().get(product_of(board) or "")


@functools.cache
def _cores() -> dict[str, int]:
    """Device -> number of its application cores."""
    return tomllib.loads((resources.files("lab.guide") / "cores.toml").read_text(encoding="utf-8"))


def is_product(name: str) -> bool:
    """Return whether a name is that of a device, such as "AM62x".

    "am62xx_sk-fs" and "sk" are no devices.
    """
    return re.fullmatch(r"[a-z]+\d+[a-z0-9]*", name.lower()) is not None


def _words(name: str) -> tuple[str, ...]:
    """Split a name into words.

    Letters of a device behind its number are a word of their own; an x is a placeholder: "am62pxx" has the words "am62"
    and "p".
    """
    lower = _SECURITY.sub("", name.lower()).replace("_", " ").replace("-", " ")
    words: list[str] = []
    for word in _WORDS.findall(lower):
        match = re.fullmatch(r"([a-z]+\d+)x*([a-z]?[a-z0-9]*?)x*", word)
        words += filter(None, match.groups()) if match else [word]
    return tuple(words)
