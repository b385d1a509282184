"""Inline markup of reStructuredText: removed when a guide is read, escaped when one is written."""

from __future__ import annotations

import re
import string

_ROLE = re.compile(r":[a-z]+:`([^`<]*)(?:<[^`]*>)?`")
_ESCAPED = re.compile(rf"\\(?:([{re.escape(string.punctuation)}])| )")
_ENUMERATOR = re.compile(r"(\w+)([.)])(?=\s|$)")
_UNDERSCORE = re.compile(r"_(?![A-Za-z0-9])")
_BLOCK = re.compile(  # what begins a list, a comment, a field, a doctest, a target, a table or a transition
    r"[-+•‣⁃](\s|$)|\.\.(\s|$)|:[^:]+:(\s|$)|>>>|\(\w+\)(\s|$)|#[.)](\s|$)|"
    r"__(\s|$)|\+[-=]+\+|(?P<line>[!-/:-@\[-`{-~])(?P=line){3,}$"
)


def unescape(text: str) -> str:
    """Remove the backslashes that protect punctuation.

    `mb\\s` stays: the vendor means the backslash.
    """
    return _ESCAPED.sub(r"\1", text)


def plain(text: str) -> str:
    """A title without its markup."""
    return unescape(" ".join(_ROLE.sub(r"\1", text).replace("**", "").strip("*` ").split()))


def escape(text: str) -> str:
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
