"""ALSA capture and playback by sampling rate: throughput and CPU load."""

from __future__ import annotations

import re
from functools import partial

from lab.benchmarks import needs
from lab.benchmarks.output import number, read, rule
from lab.benchmarks.section import Bench, ParsedReading, Row, Rows, Section, has_feature

RATES_HZ = (8000, 11025, 16000, 22050, 24000, 32000, 44100, 48000, 88200, 96000)
_SAID = {"capture": "Read", "playback": "[Ww]rite"}


def parse(output: bytes, direction: str, rate_hz: str) -> list[ParsedReading]:
    """Parse a run of the vendor's alsa_perf_tests at this rate."""
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


def _rows(bench: Bench) -> Rows:
    period = bench.board.benchmarks.audio_period_frames
    for direction, option in (("capture", "-record"), ("playback", "-playback")):
        for rate in RATES_HZ:
            command = f"run_alsa_perf.sh {option} 0 -rate {rate} -periodsize {period} -performance"
            params = {"rate_hz": str(rate), "direction": direction}
            yield Row(
                partial(bench.read, partial(parse, direction=direction, rate_hz=str(rate)), command, timeout_s=400),
                params,
            )


SECTION = Section(
    name="alsa",
    title="Audio capture and playback",
    chapter="ALSA SoC Audio Driver",
    metrics=("audio.throughput", "audio.cpu_load"),
    rows=_rows,
    needs=(
        needs.tool("run_alsa_perf.sh", "ltp-ddt"),
        needs.path("/proc/asound/card0", "sound card", "enable its codec in the kernel (CONFIG_SND_SOC_TLV320AIC3X)"),
    ),
    command="run_alsa_perf.sh -record 0 -rate 48000 -periodsize 256 -performance",
    fits=has_feature("audio"),
    duration_s=900,
)
