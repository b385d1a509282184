"""The text of one cell -> its value."""

from __future__ import annotations

import re

from lab.guide.model import CellKind, Value

_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d{1,3})?|[-+]?\.\d+"
_PLAIN = re.compile(rf"({_NUMBER})\s*%?")
_APPROXIMATE = re.compile(rf"[~≈]\s*({_NUMBER})\s*%?")
_RANGE = re.compile(
    rf"({_NUMBER})\s*%?\s*\(\s*(?:min[.:=]?\s*)?({_NUMBER})\s*%?\s*,\s*(?:max[.:=]?\s*)?({_NUMBER})\s*%?\s*\)",
    re.IGNORECASE,
)
_NOT_AVAILABLE = frozenset({"n/a", "na", "n.a.", "n.a", "-", "--", "–", "not available", "not applicable"})


def parse(text: str) -> Value:
    """What a cell's text says. Never fails: what is no number is text."""
    text = text.strip()
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
    """How many decimals the first number of a cell is printed with."""
    match = re.search(r"\d\.(\d+)", text)
    return len(match[1]) if match else 0


def _number(text: str) -> float:
    return float(text.replace(",", ""))
