"""What a board type has for benchmarks beyond its media and links, and how the published numbers of it were measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import field, frozen, validators

# A section names the feature that it needs (lab.benchmarks.section.has_feature); a board type lists those that it has.
FEATURES: Final[Mapping[str, str]] = {
    "audio": "a sound card, captured and played by ALSA",
    "glmark2": "graphics that glmark2 runs on",
    "gfxbench": "graphics whose published numbers are GFXBench's",
    "glbenchmark": "graphics whose published numbers are GLBenchmark's",
}


@frozen
class Benchmarks:
    """Settings that the published numbers of a board type were measured with.

    Attributes:
        interface: the network interface that they are of; one of the type's links.
        audio_period_frames: the period of ALSA.
        tcp_window: the TCP window that the guide states; empty: it states none.
        crypto_module: the kernel module of the crypto accelerator; empty: it has none, or nobody knows.
    """

    interface: str = "eth0"
    audio_period_frames: int = field(default=256, validator=validators.gt(0))
    tcp_window: str = ""
    crypto_module: str = ""
