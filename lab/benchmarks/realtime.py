"""cyclictest: wake-up latencies with their histogram, for the RT guides."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import evolve

from lab.benchmarks import needs
from lab.benchmarks.lab_site import MINUTE_S
from lab.benchmarks.output import first_line, lines, missing, refusal
from lab.benchmarks.section import Bench, ParsedReading, Section, Validity, whole
from lab.metrics import Flag

HIGHEST_US = 400
COMMAND = f"cyclictest -m -S -p 80 -i 200 -h {HIGHEST_US} -q -D"
QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.99": 0.9999}
MOST_SHARE = 0.5  # a ± beyond it says little of the number
_BIN = re.compile(r"^(\d{6})((?:[ \t]\d{6,})+)\s*$")
_TOTALS = re.compile(
    r"^# (Min Latencies|Avg Latencies|Max Latencies|Total|Histogram Overflows): (\d{5,}(?: \d{5,})*)$"
)


def parse(output: bytes) -> list[ParsedReading]:
    """Minimum, mean, quantiles and maximum of each processor, in microseconds.

    Raises:
        TestTransientError: a part is missing, or the histogram does not add up to the total that the program says.
    """
    bins: dict[int, list[int]] = {}
    totals: dict[str, list[int]] = {}
    unknown, start, end = "", 0, 0
    for line in lines(output):
        if match := _BIN.match(line.text):
            bins[int(match[1])] = [int(word) for word in match[2].split()]
        elif match := _TOTALS.match(line.text.strip()):
            totals[match[1]] = [int(word) for word in match[2].split()]
        elif line.text.strip() and not line.text.startswith("#"):
            unknown = unknown or line.text
            continue
        start, end = start or line.start, line.end
    names = ("Total", "Min Latencies", "Avg Latencies", "Max Latencies", "Histogram Overflows")
    absent = next((name for name in names if name not in totals), None)
    if absent or not bins:
        raise missing("cyclictest", f"the line {absent!r}" if absent else "a histogram", unknown or first_line(output))
    found_readings: list[ParsedReading] = []
    if len({len(totals[name]) for name in names}) > 1:
        raise refusal("cyclictest", "its lines are of different numbers of processors: parts of them are lost")
    for cpu, total in enumerate(totals["Total"]):
        column = {latency: counts[cpu] for latency, counts in bins.items() if cpu < len(counts)}
        counted = sum(column.values())
        if counted != total:  # the total leaves out what overflows the histogram
            raise missing(
                "cyclictest", f"{total} wake-ups of processor {cpu}, its histogram has {counted}", first_line(output)
            )
        every = total + totals["Histogram Overflows"][cpu]
        if not every:
            raise refusal("cyclictest", f"its thread on processor {cpu} never woke up")
        values = {
            "min": totals["Min Latencies"][cpu],
            "mean": totals["Avg Latencies"][cpu],
            "max": totals["Max Latencies"][cpu],
        } | {name: _quantile(column, every, share) for name, share in QUANTILES.items()}
        for name, value in values.items():
            # Behind the histogram's end nothing is known of a quantile but that it is no more than the maximum.
            unsure = max(0, values["max"] - value) if name in QUANTILES and value not in column else 0
            found_readings.append(
                ParsedReading(
                    "rt.latency",
                    float(value),
                    {"statistic": name, "cpu": str(cpu)},
                    quantum=max(1.0, 2.0 * unsure),
                    start=start,
                    end=end,
                    flags=frozenset({Flag.UNCERTAIN} if unsure > MOST_SHARE * value else ()),
                )
            )
    return found_readings


def _quantile(column: dict[int, int], every: int, share: float) -> int:
    """The latency quantile of a histogram; its end if beyond."""
    counted = 0
    for latency in sorted(column):
        counted += column[latency]
        if counted >= share * every:
            return latency
    return max(column) + 1


def _measure(bench: Bench) -> Iterator[ParsedReading]:
    seconds = bench.site.seconds
    # Interrupted, it prints its histogram and ends with status 0.
    for reading in bench.read(parse, f"{COMMAND} {seconds}", timeout_s=seconds + 60, validity=Validity(seconds)):
        yield evolve(reading, flags=reading.flags | bench.site.doubts)


SECTION = Section(
    name="cyclictest",
    title="Wake-up latency (cyclictest)",
    chapter="Real-time",
    metrics=("rt.latency",),
    rows=whole(_measure),
    needs=(needs.tool("cyclictest", "rt-tests"), needs.all_cpus_online()),
    command=f"{COMMAND} {MINUTE_S}",
    duration_s=MINUTE_S + 2,
)
