"""A disk that blocks and clocks that stand still, for processes that run with a library of ours preloaded.

freeze.c says what the library does and how it is told; this module compiles it and does the telling.
"""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("freeze.c")
STATE_VARIABLE: Final = "BOARDLAB_FREEZE"
_STATE_BYTES = 80
_CLOCKS: Final = (time.CLOCK_MONOTONIC_RAW, time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME, time.CLOCK_REALTIME)
SUSPENDED: Final = _CLOCKS[:2]  # what a suspended host leaves behind
PAUSED: Final = _CLOCKS  # what a paused virtual machine does
PAUSED_AND_SET: Final = _CLOCKS[:3]  # whose wall clock is set as it goes on
_NS = struct.Struct("=q")


class Shim:
    """The library, and the page that it looks at.

    Attributes:
        environ: what a process needs so that it is under the shim; its children inherit it.
    """

    def __init__(self, folder: Path) -> None:
        """Compile it into `folder`, with `cc`."""
        library, state = folder / "freeze.so", folder / "freeze.state"
        subprocess.run(["cc", "-O1", "-Wall", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
        state.write_bytes(bytes(_STATE_BYTES))
        with state.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), _STATE_BYTES)
        self.environ: Mapping[str, str] = {**os.environ, "LD_PRELOAD": str(library), STATE_VARIABLE: str(state)}

    def block_disk(self, *, blocked: bool) -> None:
        """Hold up every write to a recording from now on, or no longer."""
        self._put(2 * len(_CLOCKS), int(blocked))

    def set_back(self, clocks: tuple[int, ...], lost_ns: int) -> None:
        """These clocks have missed so much; nobody may look at them meanwhile."""
        for clock in clocks:
            place = _CLOCKS.index(clock)
            self._put(place, self._get(place) + lost_ns)

    def stop_clocks(self, clocks: tuple[int, ...]) -> None:
        """These clocks stand still from now on."""
        for clock in clocks:
            place = _CLOCKS.index(clock)
            self._put(len(_CLOCKS) + place, time.clock_gettime_ns(clock) - self._get(place))

    def start_clocks(self, clocks: tuple[int, ...]) -> None:
        """They go on from where they stand."""
        for clock in clocks:
            place = _CLOCKS.index(clock)
            self._put(place, time.clock_gettime_ns(clock) - self._get(len(_CLOCKS) + place))
            self._put(len(_CLOCKS) + place, 0)

    def close(self) -> None:
        """Forget the page."""
        self._page.close()

    def _get(self, place: int) -> int:
        number: int = _NS.unpack_from(self._page, place * _NS.size)[0]
        return number

    def _put(self, place: int, number: int) -> None:
        _NS.pack_into(self._page, place * _NS.size, number)
