"""Labels that are wrong: raw tables of file systems, units, two names of one sample."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from lab.guide.catalogue import CellReading
from lab.guide.measurements import MeasuredGuide, group
from lab.guide.rulebook import Effect, Remark, Severity, rule

_FILE_SYSTEM = re.compile(r"ext[234]|vfat|ubifs", re.IGNORECASE)
_RAW = re.compile(r"\braw\b", re.IGNORECASE)


@rule("raw-label", "Called raw, and through a file system", Severity.WARNING)
def raw_label(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find file-system results under columns named Raw.

    The headers of MMC tables say Raw; the test writes files through the file system of the title.

    Finding: One warning a table. The file system is taken from the title.
    """
    readings = sheet.of("storage.file.throughput", "storage.fio.throughput")
    for table_index, members in group(readings, lambda r: r.cell.table).items():
        table = sheet.guide.tables[table_index]
        system = _FILE_SYSTEM.search(table.title)
        raw = [r for r in members if _RAW.search(r.cell.metric or "")]
        if system and raw and not _RAW.search(table.title):
            yield Remark(
                f"the columns say Raw, but {table.title!r} is measured through {system[0].upper()}: the same test as "
                "in the tables that name the file system",
                raw[0],
                also=tuple(raw[1:]),
            )


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


@rule("units-lie", "A unit with two meanings, by 1000 and by 1024", Severity.INFO)
def units_lie(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find powers of ten and of two under one unit.

    Mbytes/sec is 2^20 bytes for OSPI raw reads and 10^6 for files and fio; Kbytes/sec is 1024 bytes for U-Boot and
    1000 for openssl.

    Finding: The binary unit: a warning with the factor where the guide uses both, else a note.
    """
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


_PREFIXES = {"": 1.0, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}
_UNIT = re.compile(
    r"([nuµmkMG]?)(s|Hz|W|V|A)|([kKMG]?)(?:i?(?P<bytes>B|[Bb]ytes)|b(?:its?)?)(?:/s|/[Ss]ec|ps)", re.ASCII
)
_WORDS = (("milli", "m"), ("micro", "u"), ("nano", "n"), ("seconds", "s"), ("econds", ""), ("\\", "/"), (" ", ""))
_BINARY_PREFIX = 1.1  # a prefix of 1024 in place of 1000 is another rule's


@cache
def _scale(unit: str) -> tuple[str, float] | None:
    """The quantity of a unit, and its size; None: unknown or ambiguous.

    Quantities are s, Hz, W, V, A and bit/s.
    """
    for word, short in _WORDS:
        unit = unit.replace(word, short)
    match = _UNIT.fullmatch(re.sub(r"^([nuµm]?)(sec|s)$", r"\1s", unit))
    if match is None or unit.endswith("b/s"):  # Mb/s: some print it for megabytes
        return None
    if match[2]:
        return match[2], _PREFIXES[match[1]]
    return "bit/s", _PREFIXES[match[3]] * (8 if match["bytes"] else 1)


def has_usual_unit(reading: CellReading) -> bool:
    """Return whether a number's unit is the usual or an unknown one."""
    usual = _scale(reading.quantity.unit) if reading.quantity is not None else None
    printed = _scale(reading.cell.unit or "")
    if usual is None or printed is None:
        return True
    return usual[0] == printed[0] and 1 / _BINARY_PREFIX < printed[1] / usual[1] < _BINARY_PREFIX


@rule("another-unit", "Another unit than the number's", Severity.ERROR, effect=Effect.INCOMPARABLE)
def another_unit(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find numbers printed in another unit than all guides print them in.

    The boot time is printed in seconds, LMBench's bandwidths in MB/s. The same row in milliseconds, or in GB/s, is
    either in that unit or has a wrong header.

    Finding: One error a column of a table, with the factor. Such numbers are not compared with those in the other unit.
    """
    columns = dict[tuple[int, str, str | None], list[CellReading]]()
    for reading in sheet.readings:
        if not has_usual_unit(reading):
            columns.setdefault((reading.cell.table, reading.metric, reading.cell.unit), []).append(reading)
    for (_, _, unit), readings in columns.items():
        usual_unit = readings[0].quantity.unit if readings[0].quantity is not None else ""
        (what, size), (usual_what, usual_size) = _scale(unit or "") or ("", 0.0), _scale(usual_unit) or ("", 1.0)
        times = f"{size / usual_size:g} times that" if what == usual_what else "another quantity"
        yield Remark(
            f"is in {unit!r}, while guides print it in {usual_unit}: {times}, or a wrong header",
            readings[0],
            also=tuple(readings[1:]),
        )


@rule("alias-disagrees", "Two names of one sample disagree", Severity.ERROR)
def alias_disagrees(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find aliases that differ from their row.

    The vendor's parser prints thirteen LMBench results twice: under the program's name (`lat_sem`) and under one
    from the output (`semaphore_latency`).

    Finding: A pair of one table that differs. One of the two was edited or misread; nothing is corrected.
    Comparisons and trends count an alias once. The pair that differs by design is `lmbench-false-zero`'s.
    """
    rows = {(r.cell.table, r.cell.column, r.cell.row): r for r in sheet.readings}
    named = group((r for r in sheet.of("lmbench.")), lambda r: (r.board, r.key))
    for alias in sheet.readings:
        both = named.get((alias.board, alias.key), ()) if alias.is_alias else ()
        other = rows.get((alias.cell.table, alias.cell.column, both[0].cell.row)) if both else None
        if other is None or alias.number is None or other.number is None or alias.cell.value.low == 0:
            continue  # a minimum of zero is lmbench-false-zero's
        if alias.number != other.number and has_usual_unit(alias) and has_usual_unit(other):
            yield Remark(
                f"prints {alias.cell.value.text}, but {other.cell.row!r} in line {other.cell.line} prints "
                f"{other.cell.value.text}; both are the same sample, so one of them was edited or misread",
                alias,
            )


_BITS_PER_FRAME = 32  # two channels of 16 bits
_TOLERANCE = 0.02
_CODEC_TOLERANCE = 0.005
_CODEC_HZ = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000, 64000, 88200, 96000, 176400, 192000)


@rule("audio-rate", "Another sampling rate than its row's", Severity.WARNING)
def audio_rate(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find audio tests at another sampling rate than their row.

    The throughput of the audio test shows the codec's sampling rate: rate × 2 channels × 16 bits. The row 24000 of
    every guide prints that of 22 050 frames a second.

    Finding: A row more than 2 % away from its rate, with the rate that it measures. It is a note where no codec
    runs at that rate.

    Limits: Another sample format or number of channels looks the same; the guides state S16_LE and two channels.
    """
    for reading in sheet.of("audio.throughput"):
        rate = reading.params.get("rate_hz", "")
        if not rate.isdecimal() or int(rate) == 0 or not reading.number:
            continue
        real = reading.number / _BITS_PER_FRAME
        if abs(real / int(rate) - 1) <= _TOLERANCE:
            continue
        text = f"{reading.number:.0f} bit/s are {real:.0f} frames of {_BITS_PER_FRAME} bits a second"
        if any(abs(real / codec - 1) <= _CODEC_TOLERANCE for codec in _CODEC_HZ):
            yield Remark(
                f"{text}: the codec did not run at {rate} Hz, so this row measures another rate",
                reading,
            )
        else:
            yield Remark(
                f"{text}, and no codec runs at that; the row may average several rates, or the stream stood still "
                "for a while, which the guide does not tell",
                reading,
                severity=Severity.NOTE,
            )


_SAME = 0.02


@rule("glmark-size", "Not run at that size", Severity.ERROR, Effect.INCOMPARABLE)
def glmark_size(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find glmark2 scores at 1920x1080 that equal the small window's.

    1920x1080 has four times the pixels of glmark2's default window (800x600). Equal scores are of equal sizes.

    Finding: A score at 1920x1080 within 2 % of the default window's, of the same board, or of any board where the
    row is short.
    """
    for reading in sheet.readings:
        score = reading.number
        if score is None or "1920x1080" not in reading.cell.row or "glmark2" not in reading.cell.row.lower():
            continue
        small_row = reading.cell.row.replace("1920x1080", "").strip()
        small = [
            r.number
            for r in sheet.readings
            if r.cell.table == reading.cell.table and r.cell.row == small_row and r.number is not None
            if reading.board is None or r.board == reading.board
        ]
        same = next((other for other in small if abs(score / other - 1) <= _SAME), None) if all(small) else None
        if same is not None:
            yield Remark(
                f"scores {score:g} at 1920x1080 and {same:g} in the default window of a quarter of the pixels: it "
                "was not run at 1920x1080",
                reading,
            )


_DISK_MB = 16


@rule("usb-blocks", "More blocks than the disk has", Severity.INFO)
def usb_blocks(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find transfers that are larger than the gadget's disk.

    The gadget's disk is a file of 16 MB, and dd of 150 blocks of 1 MB stops where it is full.

    Finding: A note on each cell: the transfer was at most 16 MB.

    Limits: The guides do not print the disk's size.
    """
    for reading in sheet.of("usb.device.throughput"):
        blocks = reading.params.get("blocks", "")
        if blocks.isdecimal() and int(blocks) > _DISK_MB:
            yield Remark(
                f"{blocks} blocks of 1 MB do not fit the gadget's disk of {_DISK_MB} MB: the number is of a transfer "
                f"of at most {_DISK_MB} MB",
                reading,
            )
