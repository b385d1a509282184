"""ALSA capture and playback by sampling rate: throughput and CPU load."""

from __future__ import annotations

from functools import partial

from lab.benchmarks import needs
from lab.benchmarks.output import OutputFormat, PrintedNumber
from lab.benchmarks.section import Bench, Row, Rows, Section, has_feature

RATES_HZ = (8000, 11025, 16000, 22050, 24000, 32000, 44100, 48000, 88200, 96000)
_TRACE = r"^\|TRACE LOG\|"


def _parser(verb: str) -> OutputFormat:
    """Of a run of the vendor's alsa_perf_tests at one rate."""
    start = rf"{_TRACE}{verb}: "
    return OutputFormat(
        "alsa_perf_tests {direction} {rate_hz}",
        {
            start + r"No\. of bits/Sec *\| *(\d+)\|$": PrintedNumber("audio.throughput"),
            start + r"percentage cpu load *\| *(\d+(?:\.\d+)?)%\|$": PrintedNumber("audio.cpu_load", by_digits=False),
        },
        other=rf"^\|TEST (?:START|END|RESULT)\||{_TRACE}",
        expected=2,
    )


PARSERS = {"capture": _parser("Read"), "playback": _parser("[Ww]rite")}


def _rows(bench: Bench) -> Rows:
    period = bench.board.benchmarks.audio_period_frames
    for direction, option in (("capture", "-record"), ("playback", "-playback")):
        for rate in RATES_HZ:
            command = f"run_alsa_perf.sh {option} 0 -rate {rate} -periodsize {period} -performance"
            params = {"rate_hz": str(rate), "direction": direction}
            yield Row(partial(bench.read, partial(PARSERS[direction], **params), command, timeout_s=400), params)


SECTION = Section(
    name="alsa",
    title="Audio capture and playback",
    chapter="ALSA SoC Audio Driver",
    metrics=PARSERS["capture"].metrics,
    rows=_rows,
    needs=(
        needs.tool("run_alsa_perf.sh", "ltp-ddt"),
        needs.path("/proc/asound/card0", "sound card", "enable its codec in the kernel (CONFIG_SND_SOC_TLV320AIC3X)"),
    ),
    command="run_alsa_perf.sh -record 0 -rate 48000 -periodsize 256 -performance",
    fits=has_feature("audio"),
    duration_s=900,
)
