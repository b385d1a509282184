"""Logs of TI's LTP-DDT: LMBench's numbers and its own tests'.

A test stands between `|TEST START|name|` and `|TEST END|name|`, with its parameters in `|TRACE LOG|` lines and its
outcome in `|TEST RESULT|…|`; its own numbers are in `|PERFDATA|key:value|…|`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from attrs import frozen

from lab.benchmarks import lmbench
from lab.errors import BoardlabError, TestStableError
from lab.metrics import Metric, SampleRecord, by_name
from lab.metrics.model import sample_of
from lab.metrics.uncertainty import of_step

FORM: Final = "ltp-ddt"
MARK: Final = b"|TEST START|"  # a log has it
_EDGE: Final = re.compile(rb"\|TEST (START|RESULT|END)\|(?:(\w+)\|)?([^|\r\n]+)\|")
_TRACE: Final = re.compile(rb"\|TRACE LOG\|[^\n]*\n")
_PERFDATA: Final = re.compile(r"\|PERFDATA\|([^\r\n]*?)\|+\s*$", re.MULTILINE)
_VALUE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(MB/s|%)", re.IGNORECASE)


def _metric(name: str, unit: str, better: str, definition: str) -> Metric:
    return Metric(name, unit, "lower" if better == "lower" else "higher", definition, 0.01, "LTP-DDT, |PERFDATA|")


NUMBERS: Final = {
    "throughput": _metric("ltpddt.throughput", "MB/s", "higher", "Throughput of a test, as LTP-DDT prints it."),
    "cpuload": _metric("ltpddt.cpu_load", "%", "lower", "Load of the processor during a test, as LTP-DDT prints it."),
}


@frozen
class _Block:
    """A test that ended; `line`: of its start."""

    name: str
    passed: bool
    text: bytes
    line: int


def samples(data: bytes) -> Iterator[SampleRecord]:
    """The numbers of a log's passed tests.

    Raises:
        TestStableError: a test that passed has no output that its parser knows; the message names the line.
    """
    for block in _blocks(data):
        if not block.passed:
            continue  # its numbers are of a part
        try:
            yield from _perfdata(block)
            yield from _lmbench(block)
        except BoardlabError as error:
            raise TestStableError(f"line {block.line}, test {block.name}: {error}") from error


def _blocks(data: bytes) -> Iterator[_Block]:
    start: re.Match[bytes] | None = None
    outcome = b""
    for edge in _EDGE.finditer(data):
        match edge[1]:
            case b"START":
                start, outcome = edge, b""  # one before that has no end was killed
            case b"RESULT":
                outcome = edge[2] or b""
            case _ if start is not None and start[3] == edge[3]:
                text = data[start.end() : edge.start()]
                name, line = edge[3].decode("utf-8", "replace"), data.count(b"\n", 0, start.start()) + 1
                yield _Block(name, outcome == b"PASS", text, line)
                start = None


def _perfdata(block: _Block) -> Iterator[SampleRecord]:
    for match in _PERFDATA.finditer(block.text.decode("utf-8", "replace")):
        pairs = dict(pair.split(":", 1) for pair in match[1].split("|") if ":" in pair)
        params = {"test": block.name} | {k.strip(): v.strip() for k, v in pairs.items() if k.strip() not in NUMBERS}
        for key, metric in NUMBERS.items():
            if key in pairs and (value := _VALUE.fullmatch(pairs[key].strip())):
                yield sample_of(metric, params, float(value[1]), declared=True)


def _lmbench(block: _Block) -> Iterator[SampleRecord]:
    traced = {
        word.decode("utf-8", "replace").removesuffix("B")
        for line in _TRACE.findall(block.text)
        for word in re.findall(rb"[\w.]+", line)
    }
    programs = [program for program in lmbench.programs() if program[0].split()[0] == block.name]
    if len(programs) > 1:
        programs = [program for program in programs if _telling_words(program[0]) <= traced]
    if programs:
        output = _TRACE.sub(b"", block.text).lstrip(b"\r\n")
        for reading in programs[0][1](output):
            metric = by_name(reading.metric)
            bound = of_step(max(reading.quantum, metric.resolution))
            yield sample_of(metric, reading.params, reading.value, bound, reading.flags)


def _telling_words(command: str) -> set[str]:
    """A command's words that tell it from the program's others."""
    return {word for word in command.split()[1:] if not word.startswith(("-", "/")) and word != "localhost"}
