"""Recordings of good boots of simulated boards, for torture."""

from __future__ import annotations

from functools import cache

from torture_boot import GoodBoot, good_boot

from lab import boards
from lab.console import Chunk, Event, Recording, RecordingMeta, encode
from support.simlab import SimLab

SPEED_BD = 115200
AFTER_PROMPT_NS = 5_000_000_000  # recorded, as a run does that watches for what comes behind the prompt


def recording(
    board: str = "am62xx_sk", medium: str = "sd", *, adapter_latency_ns: int = 0, seed: int = 1
) -> Recording:
    """The recording of a boot on a perfect line."""
    return Recording.decode(*files(board, medium, adapter_latency_ns=adapter_latency_ns, seed=seed))


@cache
def files(board: str, medium: str, *, adapter_latency_ns: int = 0, seed: int = 1) -> tuple[bytes, bytes]:
    """The log and the index of a boot on a perfect line."""
    lab = SimLab(board, seed=seed, adapter_latency_ns=adapter_latency_ns)
    lab.on(medium)
    lab.run_until("login: ")
    lab.run_for(AFTER_PROMPT_NS)
    found: list[Event] = []
    position = 0
    for t_ns, data in lab.ports[lab.console].chunks:
        found.append(Chunk(t_ns, position, data))
        position += len(data)
    meta = RecordingMeta("sim", "/dev/ttyUSB0", SPEED_BD, adapter_latency_ns=adapter_latency_ns, fifo_bytes=16)
    return encode(meta, found)


@cache
def good(board: str = "am62xx_sk", medium: str = "sd", adapter_latency_ns: int = 0) -> GoodBoot:
    """A good boot."""
    return good_boot(recording(board, medium, adapter_latency_ns=adapter_latency_ns), boards.load(board), medium)
