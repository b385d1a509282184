"""Places that nobody can use: an exporter of theirs is away, or a serial port.

labgrid acquires and reserves them as if they were whole. So the janitor (`lab.places.janitor`) acquires them meanwhile, under a name that says why.
"""

from __future__ import annotations

import re
from typing import Final, Literal, Self

from attrs import frozen

_HOLDER: Final = re.compile(r"(exporter|port)-away/(.*)")
_SOME: Final = "some-host"  # where a place's match is a pattern, which names no exporter


@frozen
class Away:
    """What is away.

    Attributes:
        what: an exporter, which offers nothing that the place wants, or a serial port, of which it says that it is not there.
        exporter: its name; empty: the place's match is a pattern, which names none.
        beside: a place that is whole, and has a resource of this one's: who acquires this one takes that from it. Empty: there is none.
    """

    what: Literal["exporter", "port"]
    exporter: str
    beside: str = ""

    @classmethod
    def of(cls, holder: str) -> Self | None:
        """Of a place's holder, as labgrid has it; None: it is held by somebody."""
        found = _HOLDER.fullmatch(holder)
        if found is None:
            return None
        return cls("exporter" if found[1] == "exporter" else "port", "" if found[2] == _SOME else found[2])

    @property
    def holder(self) -> str:
        """Who acquires the place meanwhile, as "host/user"."""
        return f"{self.what}-away/{self.exporter or _SOME}"

    @property
    def described(self) -> str:
        """What to do about it."""
        host = self.exporter or "the board's host"
        if self.what == "exporter":
            return f"exporter of {host} is away; start boardlab-export there"
        return f"serial port of {host} is away; plug its adapter in, or start boardlab-console there"
