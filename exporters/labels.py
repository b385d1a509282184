"""Names and values of labels, whatever a console or a file has put into them."""

from __future__ import annotations

import re
from typing import Final

LONGEST_VALUE: Final = 100  # characters
RESERVED: Final = frozenset(
    {"board", "board_type", "medium", "release", "metric", "stat", "definition", "flag", "kind", "against"}
)
_TAKEN: Final = frozenset({"le", "quantile", "job", "instance"})  # by Prometheus
_NO_NAME: Final = re.compile(r"[^a-z0-9_]+")


def clean(value: str) -> str:
    """A label's value: printable, of one line, and not longer than LONGEST_VALUE.

    Control characters, also those that begin a terminal's escape sequences, and lone surrogates become "?".
    """
    text = "".join(c if c.isprintable() else "?" for c in value[: LONGEST_VALUE + 1])
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def label_name(name: str) -> str:
    """A label's name for a parameter of a measurement; `param_` goes before one that means something else here."""
    plain = _NO_NAME.sub("_", name.lower()).strip("_")[:LONGEST_VALUE] or "param"
    return f"param_{plain}" if plain in RESERVED | _TAKEN or plain[0].isdigit() else plain
