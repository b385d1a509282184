"""Every table of the five guides with the section that measures it: `python tools/benchmark_table.py` prints it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import define, field

from lab.benchmarks.section import Section
from lab.benchmarks.sections import ALL
from lab.guide import layout
from lab.guide import measurements as sheets
from lab.guide.read import reader

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support import guide_family

GUIDES = {
    "am62x-11.01.rst": "62x 11.01",
    "am62x-09.02.rst": "62x 09.02",
    "am62ax-09.02.rst": "62A",
    "am65x-09.03-rt.txt": "65x RT",
    "am437x.rst": "437x",
}
# tests/system/test_sections_qemu.py runs these programs there
ON_QEMU = frozenset({"cyclictest", "emmc-fio", "lmbench", "openssl", "ospi-raw", "sd-fio", "uboot-emmc", "uboot-sd"})
ELSEWHERE = {  # metrics that are no section's: who measures them
    "boot.time": ("test_boot.py", "`lab.benchmarks.boot`", "QEMU, simulated"),
    "power.rail": ("test_low_power.py", "`lab.rails.phase`", "QEMU, simulated"),
    "power.total": ("test_low_power.py", "`lab.rails.phase`", "QEMU, simulated"),
    "power.resume_latency": ("test_low_power.py", "`lab.benchmarks.lowpower.kernellog`", "QEMU, simulated"),
}
HEAD = "| Guide table | Guides | Section | Vendor's command | Parser | Runs on | Metrics |\n|---|---|---|---|---|---|---|\n"


@define
class TableRow:
    guides: dict[str, None] = field(factory=dict)
    metrics: dict[str, None] = field(factory=dict)
    sections: dict[str, Section] = field(factory=dict)


def of_number(metric: str, params: Mapping[str, str]) -> Section | None:
    """The section of a guide's number; None: none."""
    fitting = [s for s in ALL if metric in s.metrics and s.params.items() <= params.items()]
    return max(fitting, key=lambda section: len(section.params), default=None)


def tables(paths: Mapping[str, Path]) -> dict[str, TableRow]:
    """Top chapter and title of every table of results -> who measures it."""
    rows: dict[str, TableRow] = {}
    for name, path in paths.items():
        for r in sheets.of_guide(reader.read(path)).readings:
            if not r.metric:  # a key, or a name that is printed as a number
                continue
            place = layout.load().place(r.metric, r.params)
            chapter = next(iter(r.table.chapter), place.chapter[0] if place else "")
            row = rows.setdefault(f"{chapter}: {' '.join(r.table.name.replace('_', ' ').split())}", TableRow())
            row.guides[GUIDES[name]] = None
            row.metrics[r.metric] = None
            section = of_number(r.metric, r.params)
            if section is not None:
                row.sections[section.name] = section
    return rows


def lines(paths: Mapping[str, Path]) -> Iterator[str]:
    """The rows of the table."""
    for place, row in tables(paths).items():
        elsewhere = [ELSEWHERE[metric] for metric in row.metrics if metric in ELSEWHERE]
        if elsewhere:
            who, parser, runs = elsewhere[0]
            cells = [who, "", parser, runs]
        else:
            found = list(row.sections.values())
            runs = "QEMU, simulated" if any(s.name in ON_QEMU for s in found) else "simulated"
            modules = dict.fromkeys(_module(s) for s in found)
            commands = dict.fromkeys(s.command for s in found)
            cells = [", ".join(row.sections), _code(commands), _code(modules), runs]
        yield "| " + " | ".join([place, ", ".join(row.guides), *cells, _code(row.metrics)]).replace("\n", " ") + " |"


def _module(section: Section) -> str:
    measure = getattr(section.rows, "func", section.rows)
    module: str = measure.__module__
    return module


def _code(words: Mapping[str, None]) -> str:
    return ", ".join(f"`{word.replace('|', chr(92) + '|')}`" for word in words)


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        sys.stdout.write(HEAD + "".join(f"{line}\n" for line in lines(guide_family.written(Path(made)))))


if __name__ == "__main__":
    main()
