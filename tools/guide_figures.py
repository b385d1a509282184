"""From the five guides' figures to what simulated boards play: `python tools/guide_figures.py` writes the files again.

The numbers are recovered ones where a rule of the guides can: a simulated board plays what the program said, not what
the vendor's parser made of it.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from lab.guide import boards, measurements
from lab.guide.check import annotations as guide_annotations
from lab.guide.check.annotations import AnnotatedGuide
from lab.guide.read import reader
from lab.guide.rulebook import Effect
from lab.virtual.sim import figures

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support import guide_family

RELEASES = {
    "am62x-11.01.rst": "11.01",
    "am62x-09.02.rst": "09.02",
    "am437x.rst": "04.00",
    "am62ax-09.02.rst": "09.02",
    "am65x-09.03-rt.txt": "09.03",
}
_ELSEWHERE = ("boot.", "uboot.", "power.", "ethernet.udp.datagram")  # board types have them, or they are no result


def files(paths: Mapping[str, Path]) -> dict[str, str]:
    """Name -> content of every file of figures."""
    found: dict[str, str] = {}
    for name, release in RELEASES.items():
        known = guide_annotations.annotate(measurements.of_guide(reader.read(paths[name])))
        for board in known.sheet.guide.boards:
            found[figures.file_name(boards.type_of(board), release)] = "\n".join(sorted(_lines(known, board))) + "\n"
    return found


def _lines(known: AnnotatedGuide, board: str) -> Iterator[str]:
    seen = set()
    attributed = {r.key for r in known.sheet.readings if r.board == board}
    for r in known.sheet.readings:
        nobody = r.board is None and r.key not in attributed and r.quantity is not None
        if r.quantity is None or r.is_alias or r.metric.startswith(_ELSEWHERE) or not (r.board == board or nobody):
            continue
        value = known.value(r)
        if value is None or r.key in seen:
            continue
        seen.add(r.key)
        params = ";".join(f"{key}={text}" for key, text in sorted(r.params.items()))
        cell = r.cell.value
        ends = (cell.low, cell.high) if not known.finding_with(Effect.RECOVERED, r) else (None, None)
        yield ",".join([r.metric, params, *(f"{n:g}" if n is not None else "" for n in (round(value, 4), *ends))])


def main() -> None:
    folder = figures.FOLDER
    with tempfile.TemporaryDirectory() as made:
        for name, content in files(guide_family.written(Path(made))).items():
            (folder / name).write_text(content, encoding="utf-8")
            sys.stdout.write(f"{folder / name}\n")


if __name__ == "__main__":
    main()
