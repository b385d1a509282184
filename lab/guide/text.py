"""Text of cells and titles: numbers, and inline markup of reStructuredText.

Markup is removed when a guide is read, and escaped when one is written.
"""

from __future__ import annotations

import re
import string

from lab.guide.model import CellKind, Value

_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d{1,3})?|[-+]?\.\d+"
_PLAIN = re.compile(rf"({_NUMBER})\s*%?")
_APPROXIMATE = re.compile(rf"[~≈]\s*({_NUMBER})\s*%?")
_RANGE = re.compile(
    rf"({_NUMBER})\s*%?\s*\(\s*(?:min[.:=]?\s*)?({_NUMBER})\s*%?\s*,\s*(?:max[.:=]?\s*)?({_NUMBER})\s*%?\s*\)",
    re.IGNORECASE,
)
_MARKS = re.compile(r"(?<=[\d)%a])(?:\s*\[#?\d{1,3}\]_?)+$")
_NOT_AVAILABLE = frozenset({"n/a", "na", "n.a.", "n.a", "-", "--", "–", "not available", "not applicable"})


def value_of(text: str) -> Value:
    """Parse a cell's text.

    It never fails: a text without a number is text. References to footnotes behind it are no part of it.
    """
    text = _MARKS.sub("", text.strip())
    if not text:
        return Value(CellKind.EMPTY, "")
    if text.lower() in _NOT_AVAILABLE:
        return Value(CellKind.NOT_AVAILABLE, text)
    words = " ".join(text.split())  # runs of blanks would make the patterns backtrack
    if match := _PLAIN.fullmatch(words):
        return Value(CellKind.VALUE, text, _number(match[1]))
    if match := _RANGE.fullmatch(words):
        return Value(CellKind.RANGE, text, _number(match[1]), _number(match[2]), _number(match[3]))
    if match := _APPROXIMATE.fullmatch(words):
        return Value(CellKind.APPROXIMATE, text, _number(match[1]))
    return Value(CellKind.TEXT, text)


def decimals(text: str) -> int:
    """Count the decimals of a cell's first number."""
    match = re.search(r"\d\.(\d+)", text)
    return len(match[1]) if match else 0


def _number(text: str) -> float:
    return float(text.replace(",", ""))


_ROLE = re.compile(r":[a-z]+:`([^`<]*)(?:<[^`]*>)?`")
_ESCAPED = re.compile(rf"\\(?:([{re.escape(string.punctuation)}])| )")
_ENUMERATOR = re.compile(r"(\w+)([.)])(?=\s|$)")
_UNDERSCORE = re.compile(r"_(?![A-Za-z0-9])")
_BLOCK = re.compile(  # what begins a list, a comment, a field, a doctest, a target, a table or a transition
    r"[-+•‣⁃](\s|$)|\.\.(\s|$)|:[^:]+:(\s|$)|>>>|\(\w+\)(\s|$)|#[.)](\s|$)|__(\s|$)|\+[-=]+\+|(?P<line>[!-/:-@\[-`{-~])(?P=line){3,}$"
)


def unescaped(text: str) -> str:
    """Remove the backslashes that protect punctuation.

    `mb\\s` stays: the vendor means the backslash.
    """
    return _ESCAPED.sub(r"\1", text)


def plain(text: str) -> str:
    """A title without its markup."""
    return unescaped(" ".join(_ROLE.sub(r"\1", text).replace("**", "").strip("*` ").split()))


def escaped(text: str) -> str:
    """A text that docutils prints as it is, whatever punctuation it holds."""
    protected = text.replace("\\", "\\\\")
    for mark in "*`|":
        protected = protected.replace(mark, f"\\{mark}")
    protected = _UNDERSCORE.sub(r"\\_", protected)
    if match := _ENUMERATOR.match(protected):
        protected = f"{match[1]}\\{protected[match.end(1) :]}"
    if protected.endswith("::"):
        protected = f"{protected[:-1]}\\:"
    if _BLOCK.match(protected):
        protected = f"\\ {protected}" if protected.startswith("\\") else f"\\{protected}"
    return protected
