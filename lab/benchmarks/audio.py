"""ALSA capture and playback, by sampling rate: bits a second and CPU load."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from lab.benchmarks import needs
from lab.benchmarks.output import number, read, rule
from lab.benchmarks.section import Bench, Need, ParsedReading, Section
from lab.boards import BoardType

RATES_HZ = (8000, 11025, 16000, 22050, 24000, 32000, 44100, 48000, 88200, 96000)
# The list of settings in every guide says 64, and is about arecord and aplay. The vendor's runner, which the numbers come
# from, has 256 on am6*; it does not know the AM437x, where the guide is all there is.
PERIOD_FRAMES = 256
PERIOD_FRAMES_AM437X = 64
_SAID = {"capture": "Read", "playback": "[Ww]rite"}


def parse(output: bytes, direction: str, rate_hz: str) -> list[ParsedReading]:
    """One run of the vendor's alsa_perf_tests; it says the rate that it was asked for."""
    params = {"rate_hz": rate_hz, "direction": direction}
    start = rf"^\|TRACE LOG\|{_SAID[direction]}: "

    def load(match: re.Match[str]) -> list[ParsedReading]:
        return [ParsedReading("audio.cpu_load", float(match[1]), params)]

    rules = [
        rule(start + r"No\. of bits/Sec *\| *(\d+)\|$", number("audio.throughput", params)),
        rule(start + r"percentage cpu load *\| *(\d+(?:\.\d+)?)%\|$", load),
        rule(r"^\|TEST (?:START|END|RESULT)\||^\|TRACE LOG\|"),
    ]
    return read(output, f"alsa_perf_tests {direction} {rate_hz}", rules, expected=2)


def period_frames(board: BoardType) -> int:
    """The period that the published numbers of a board are of."""
    return PERIOD_FRAMES_AM437X if board.name.startswith("am43") else PERIOD_FRAMES


def _measure(bench: Bench) -> Iterator[ParsedReading]:
    period = period_frames(bench.board)
    for direction, option in (("capture", "-record"), ("playback", "-playback")):
        for rate in RATES_HZ:
            command = f"run_alsa_perf.sh {option} 0 -rate {rate} -periodsize {period} -performance"
            yield from bench.read(partial(parse, direction=direction, rate_hz=str(rate)), command, timeout_s=400)


def _card() -> Need:
    return needs.path(
        "/proc/asound/card0", "sound card", "enable its codec in the kernel (CONFIG_SND_SOC_TLV320AIC3X)"
    )


SECTION = Section(
    name="alsa",
    title="Audio capture and playback",
    chapter="ALSA SoC Audio Driver",
    metrics=("audio.throughput", "audio.cpu_load"),
    measure=_measure,
    needs=(needs.tool("run_alsa_perf.sh", "ltp-ddt"), _card()),
    command="run_alsa_perf.sh -record 0 -rate 48000 -periodsize 256 -performance",
    duration_s=900,
)
