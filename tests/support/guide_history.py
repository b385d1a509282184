"""Histories of guides: releases of several devices with the tables of the family's guides and numbers that vary a little."""

from __future__ import annotations

import csv
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from attrs import evolve

from support.guide_family import GuideText, TableText, figures, text
from support.guide_generator import DEVICES

_NUMBER = re.compile(r"\d+\.\d+")
_SPREAD = 0.005  # of a number from release to release
_RELEASES = ("08.00", "08.02", "08.06", "09.00", "09.01", "09.02", "10.00", "10.01", "11.00", "11.01")


def releases(count: int) -> list[str]:
    """So many releases, oldest first."""
    later = [f"{12 + number // 3}.{number % 3:02d}" for number in range(max(0, count - len(_RELEASES)))]
    return [*_RELEASES, *later][:count]


def history(count: int, seed: int = 22) -> Iterator[tuple[str, str]]:
    """(File name, text) of so many guides: each device of the generator in one release after the other."""
    bases = [figures(name) for name in ("am62x-11.01.rst", "am62x-09.02.rst")], [figures("am62ax-09.02.rst")]
    draw = random.Random(seed)
    devices = sorted(DEVICES)
    for number in range(count):
        device, release = devices[number % len(devices)], releases(1 + number // len(devices))[-1]
        boards = DEVICES[device]
        base = draw.choice(bases[0] if len(boards) > 1 else bases[1])
        yield f"{device.lower()}-{release}.rst", text(variant(base, device, release, boards, draw))


def variant(base: GuideText, device: str, release: str, boards: Sequence[str], draw: random.Random) -> GuideText:
    """The guide of another device and release: its own boards, and each number a little off."""
    heads = [cell for table in base.tables for cell in next(csv.reader([table.lines[0]])) if ": " in cell]
    names = dict(zip(dict.fromkeys(cell.partition(": ")[0] for cell in heads), boards, strict=False))
    varied = [_varied(table, names, draw) for table in base.tables]
    tables = [table for table in varied if table is not None]
    return evolve(base, title=f"Linux {release} Performance Guide of {device}", tables=tables, modules=[], form="rst")


def write(folder: Path, count: int) -> list[Path]:
    """Write the guides, oldest release first."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, content in history(count):
        paths.append(folder / name)
        paths[-1].write_text(content, encoding="utf-8")
    return paths


def _varied(table: TableText, names: Mapping[str, str], draw: random.Random) -> TableText | None:
    """The table with the boards that the other device has; None where none of its boards is left."""
    header, *rows = (next(csv.reader([line])) for line in table.lines)
    kept = [i for i, cell in enumerate(header) if ": " not in cell or cell.partition(": ")[0] in names]
    if any(": " in cell for cell in header) and not any(": " in header[i] for i in kept):
        return None
    is_result = [": " in cell for cell in header]
    head = [_renamed(header[i], names) for i in kept]
    lines = [_line(head)]
    for row in rows:
        if len(row) == len(header):
            lines.append(_line([_other(row[i], draw) if is_result[i] else row[i] for i in kept]))
        else:
            lines.append(_line(row[: len(kept) - 1] if len(row) < len(header) else row))
    return evolve(table, lines=lines)


def _renamed(cell: str, names: Mapping[str, str]) -> str:
    board, colon, metric = cell.partition(": ")
    return f"{names[board]}: {metric}" if colon else cell


def _other(cell: str, draw: random.Random) -> str:
    factor = draw.gauss(1.0, _SPREAD)
    return _NUMBER.sub(lambda match: f"{float(match[0]) * factor:.2f}", cell)


def _line(cells: Sequence[str]) -> str:
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)
