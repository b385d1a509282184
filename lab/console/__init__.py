"""The console: bytes in, moments out.

A server of its own process owns the serial ports, stamps every read and records it; clients read along, and one of
them writes. Moments are found in the stamped stream, live or from a recording. Nothing here knows labgrid.
"""

from lab.console.client import ConsoleClient
from lab.console.index import RecordingMeta
from lab.console.model import Chunk, Event, Gap, Interval, Kind, Lateness, LineTiming, Moment, Suspended, interval
from lab.console.moments import MomentFinder, find_moments
from lab.console.printk import PrintkFit, fit_printk
from lab.console.recording import Recording, encode
from lab.console.runtime import runtime_dir
from lab.console.spawn import ensure_server
from lab.console.status import PortInfo, PortStatus, ServerStatus
from lab.console.writer import RecordingWriter

__all__ = [
    "Chunk",
    "ConsoleClient",
    "Event",
    "Gap",
    "Interval",
    "Kind",
    "Lateness",
    "LineTiming",
    "Moment",
    "MomentFinder",
    "PortInfo",
    "PortStatus",
    "PrintkFit",
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
