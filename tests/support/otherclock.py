"""Another host's name and wall clock for a process."""

from __future__ import annotations

import datetime as dt
import socket
from types import SimpleNamespace
from typing import Any


def become(name: str, ahead_s: float, patch: Any = setattr) -> None:
    """Give this process that host's name, and boardlab in it that host's wall clock; gRPC's deadlines are by this machine's."""
    from lab.host import clock  # noqa: PLC0415 - before anything of boardlab looks at the clock

    class Shifted(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:  # type: ignore[override]
            return dt.datetime.now(tz) + dt.timedelta(seconds=ahead_s)

    patch(clock, "dt", SimpleNamespace(datetime=Shifted, UTC=dt.UTC))
    patch(socket, "gethostname", lambda: name)
