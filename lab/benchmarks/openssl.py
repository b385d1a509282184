"""`openssl speed` on six block sizes, and its share of a core."""

from __future__ import annotations

import re
from functools import partial

from lab.benchmarks import needs
from lab.benchmarks.output import LineRule, PrintedNumber, lines, missing, read, rule
from lab.benchmarks.section import Bench, ParsedReading, Row, Rows, Section

ALGORITHMS = (
    *(f"aes-{bits}-{mode}" for bits in (128, 192, 256) for mode in ("cbc", "ecb")),
    *("des3", "md5", "sha1", "sha224", "sha256", "sha384", "sha512"),
)
BLOCKS = ("16", "64", "256", "1024", "8192", "16384")


def parse(output: bytes, algorithm: str) -> list[ParsedReading]:
    """The output of `time -v openssl speed -elapsed -evp ALGORITHM`.

    k is 1000 bytes a second.

    Raises:
        TestTransientError: the table or the share of the processor is missing.
    """
    blocks = _blocks(output)

    def row(match: re.Match[str]) -> list[ParsedReading]:
        values = re.findall(r"(\d+\.\d\d)k", match[1])
        if len(values) != len(blocks):
            return []
        return [
            ParsedReading("openssl.throughput", float(value), {"algorithm": algorithm, "buffer": block})
            for block, value in zip(blocks, values, strict=True)
        ]

    rules: list[LineRule] = [
        rule(r"^You have chosen to measure elapsed time|^Doing |^version:|^built on:|^options:|^compiler:|^CPUINFO:"),
        rule(r"^The 'numbers' are in 1000s of bytes|^type "),
        rule(r"^\S+((?: +\d+\.\d\dk){2,}) *$", row),
        rule(r"^\tPercent of CPU this job got: (\d+)%$", PrintedNumber("openssl.cpu_load", {"algorithm": algorithm})),
        rule(r"^\t[A-Z][^:]+: "),
    ]
    return read(output, f"openssl speed -evp {algorithm}", rules, expected=len(BLOCKS) + 1)


def _blocks(output: bytes) -> list[str]:
    """The block sizes of the table's header (they vary by version)."""
    for line in lines(output):
        if line.text.startswith("type "):
            return re.findall(r"(\d+) bytes", line.text)
    raise missing(
        "openssl speed", "the table's header (`type 16 bytes …`)", output.decode("utf-8", "replace").partition("\n")[0]
    )


def _rows(bench: Bench) -> Rows:
    for algorithm in ALGORITHMS:
        command = f"env time -v openssl speed -elapsed -evp {algorithm} 2>&1"
        parser = partial(parse, algorithm=algorithm)
        yield Row(partial(bench.read, parser, command, timeout_s=60), {"algorithm": algorithm})


SECTION = Section(
    name="openssl",
    title="OpenSSL speed and CPU load",
    chapter="CRYPTO Driver",
    metrics=("openssl.throughput", "openssl.cpu_load"),
    rows=_rows,
    needs=(needs.tool("openssl"), needs.program_time("-v")),
    command="time -v openssl speed -elapsed -evp aes-128-cbc",
    duration_s=260,
)
