"""One printed unit, two meanings."""

from __future__ import annotations

from collections.abc import Iterator

from lab.guide.catalogue import CellReading
from lab.guide.rulebook import Remark, Rule, Severity
from lab.guide.sheet import Sheet, group

# metric -> (what a byte prefix of its printed unit means, how the tool shows it)
_BINARY = {
    "ospi.raw.throughput": ("2^20 bytes", "dd's 52428800 bytes are called 50 Mbytes"),
    "uboot.throughput": ("1024 bytes", "the vendor divides the size by 1024"),
}
_DECIMAL = {
    "storage.fio.throughput": ("10^6 bytes", "the number in fio's parentheses"),
    "storage.file.throughput": ("10^6 bytes", "bytes per microsecond"),
    "openssl.throughput": ("1000 bytes", "openssl speed says 1000s of bytes"),
}
_FACTOR = {"mbytes/sec": 2**20 / 1e6, "kbytes/sec": 1.024}


def check(sheet: Sheet, _older: Sheet | None) -> Iterator[Remark]:
    """A guide that prints both powers of ten and of two under one unit misleads; the binary ones are converted."""
    decimal = {unit: r for r in sheet.of(*_DECIMAL) for unit in [_unit(r)] if unit in _FACTOR}
    for (_, unit), readings in group(sheet.of(*_BINARY), lambda r: (r.metric, _unit(r))).items():
        first = readings[0]
        if unit not in _FACTOR:
            continue
        meaning, proof = _BINARY[first.metric]
        other = decimal.get(unit)
        text = f"{first.cell.unit!r} here means {meaning} ({proof})"
        if other is None:
            yield Remark(f"{text}, not 10^{6 if unit[0] == 'm' else 3} bytes", first, also=readings[1:])
            continue
        yield Remark(
            f"{text}, while line {other.cell.line} prints {other.cell.unit!r} for {_DECIMAL[other.metric][0]}; times "
            f"{_FACTOR[unit]:g} it is in those",
            first,
            also=readings[1:],
            corrected=round((first.number or 0.0) * _FACTOR[unit], 2),
            severity=Severity.WARNING,
        )


def _unit(reading: CellReading) -> str:
    return (reading.cell.unit or "").lower()


RULE = Rule(id="units-lie", title="One unit, two meanings", severity=Severity.INFO, check=check)
