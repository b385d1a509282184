"""Keeping the processors out of deep sleep while somebody measures.

A processor that sleeps deeply takes some ten to some hundred microseconds to wake when a byte arrives, or a timer rings.
A process that holds /dev/cpu_dma_latency open with the value 0 forbids that for the whole host
(Documentation/power/pm_qos_interface.rst of the kernel); cyclictest does the same. It costs power, so it is held only as
long as a port has a writer, or rails are sampled a thousand times a second.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

DEVICE = Path("/dev/cpu_dma_latency")
_NO_LATENCY = bytes(4)  # s32, in microseconds
_log = logging.getLogger(__name__)


class IdleStates:
    """The kernel's permission to sleep deeply; given back when this process ends, however it ends."""

    def __init__(self, device: Path = DEVICE) -> None:
        """Nothing is forbidden yet."""
        self._device = device
        self._fd: int | None = None
        self._refused = False

    @property
    def forbidden(self) -> bool:
        """Whether deep idle states are forbidden now."""
        return self._fd is not None

    def forbid(self, wanted: bool) -> None:
        """Forbid deep idle states, or allow them again; where the device may not be opened, nothing changes."""
        if wanted and self._fd is None and not self._refused:
            self._open()
        elif not wanted and self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> None:
        try:
            fd = os.open(self._device, os.O_WRONLY | os.O_CLOEXEC)
        except OSError as error:
            self._refused = True
            _log.info("%s: %s; processors may sleep deeply while measuring", self._device, error.strerror)
            return
        os.write(fd, _NO_LATENCY)
        self._fd = fd
