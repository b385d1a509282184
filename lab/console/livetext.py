"""The bytes of a console as text, while they come."""

from __future__ import annotations

import codecs
import re

from lab.shown import plain_text

_RETURNS = re.compile("\r+\n")


class LiveText:
    """The bytes of a console as text while they come; their lines end as the board's do."""

    def __init__(self) -> None:
        """Nothing has come."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._held = ""  # carriage returns: a newline may follow

    def feed(self, data: bytes) -> str:
        """What can be shown now."""
        text = self._held + self._decoder.decode(data)
        shown = text.rstrip("\r")
        self._held = text[len(shown) :]
        return plain_text(_RETURNS.sub("\r\n", shown))
