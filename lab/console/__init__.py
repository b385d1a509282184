"""The console: bytes in, moments out.

A server of its own process owns the serial ports, stamps every read and records it; clients read along, and one of
them writes. Moments are found in the stamped stream, live or from a recording. Nothing here knows labgrid.

Names of this package are imported at their first use: a client at a prompt needs no board types and no fits.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lab.console.client import ConsoleClient, ensure_server
    from lab.console.model import (
        Chunk,
        Event,
        Gap,
        Interval,
        Lateness,
        LineTiming,
        RecordKind,
        Suspended,
        interval,
    )
    from lab.console.moments import MomentFinder, find_moments
    from lab.console.printk import PrintkFit, fit_printk
    from lab.console.recorder import RecordingWriter
    from lab.console.recording import Recording, RecordingMeta, encode
    from lab.console.status import PortInfo, PortStatus, ServerStatus
    from lab.host.runtime import runtime_dir
    from lab.metrics import Moment

__all__ = [
    "Chunk",
    "ConsoleClient",
    "Event",
    "Gap",
    "Interval",
    "Lateness",
    "LineTiming",
    "Moment",
    "MomentFinder",
    "PortInfo",
    "PortStatus",
    "PrintkFit",
    "RecordKind",
    "Recording",
    "RecordingMeta",
    "RecordingWriter",
    "ServerStatus",
    "Suspended",
    "encode",
    "ensure_server",
    "find_moments",
    "fit_printk",
    "interval",
    "runtime_dir",
]

_NAMES: Final = {
    "lab.console.client": "ConsoleClient ensure_server",
    "lab.console.recording": "Recording RecordingMeta encode",
    "lab.console.model": "Chunk Event Gap Interval Lateness LineTiming RecordKind Suspended interval",
    "lab.console.moments": "MomentFinder find_moments",
    "lab.console.printk": "PrintkFit fit_printk",
    "lab.host.runtime": "runtime_dir",
    "lab.metrics": "Moment",
    "lab.console.status": "PortInfo PortStatus ServerStatus",
    "lab.console.recorder": "RecordingWriter",
}
_MODULE_OF: Final = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """A public name, from its module (PEP 562)."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
