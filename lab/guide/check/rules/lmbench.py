"""latency_for_1.00_mb_block_size: a zero that was never measured."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from lab.guide.catalogue import CellReading
from lab.guide.measurements import MeasuredGuide, group
from lab.guide.model import CellKind, decimals
from lab.guide.rulebook import Effect, Remark, Severity, rule

_ROUNDING = 0.011


@rule("lmbench-false-zero", "A zero that was never measured", Severity.ERROR, Effect.RECOVERED)
def lmbench_false_zero(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find false minima of 0.00 in the alias of lat_mem_rd 1000k.

    The vendor's pattern for `latency_for_1.00_mb_block_size` also matches lat_mmap's line `1.000000 46`, and reads
    it as 0. The cell is the mean of 0 and the true value.

    Finding: The value is taken from `lat_mem_rd-stride128-sz1000k` of the board; without that row from the
    maximum, if one run was made; else the cell is suspect.
    """
    own = {r.board: r.number for r in sheet.of("lmbench.lat_mem_rd") if r.params["size"] == "1000k"}
    for reading in sheet.readings:
        value = reading.cell.value
        if not reading.is_alias or reading.params.get("size") != "1000k" or value.low != 0 or not value.high:
            continue
        yield _remark(reading, own.get(reading.board))


def _remark(reading: CellReading, own: float | None) -> Remark:
    value = reading.cell.value
    why = (
        "the vendor's pattern also matches the lat_mmap line '1.000000 46', whose first digit it reads as the "
        "latency 0"
    )
    if own is not None:
        return Remark(
            f"{why}; the row lat_mem_rd-stride128-sz1000k holds the value, {own:.2f}", reading, corrected=own
        )
    if value.number is not None and value.high is not None and abs(2 * value.number - value.high) <= _ROUNDING:
        return Remark(f"{why}; the value is the maximum, {value.high:.2f}", reading, corrected=value.high)
    return Remark(
        f"{why}; several runs are mixed and their number is not known, so the value cannot be recovered",
        reading,
        severity=Severity.SUSPECT,
    )


ORDER = ("rd", "wr", "rdwr", "cp", "fwr", "frd", "fcp", "bzero", "bcopy")  # in which the test script runs them

# Against 2944 cells of guides whose samples are known: within 10 % in 82 of 100.
_MOST_OFF = 0.25  # relative, in 99 of 100
_LEAST_LINKS = 2


@rule("lmbench-pairing", "bw_mem averages two operations", Severity.ERROR, Effect.RECOVERED)
def lmbench_pairing(sheet: MeasuredGuide, _older: MeasuredGuide | None) -> Iterator[Remark]:
    """Find bw_mem cells that average two operations.

    The vendor's pattern for bw_mem runs on into the next operation's output, so a cell averages two samples: its
    own and the next one's, in the order rd, wr, rdwr, cp, fwr, frd, fcp, bzero, bcopy. bcopy and 16 MB are single.
    All 288 paired cells of the five guides chain so.

    Finding: Values are recovered backwards from bcopy. With one run each is one of the two printed samples; with
    several it is 2 × average − next own mean, with ± 25 % (99 of 100 lay within that), and a comparison counts no
    difference within it. A chain counts only if every link fits: the neighbour's own value and the rest lie
    inside the printed range. Where bcopy is missing the cells are suspect and not corrected.

    Limits: Rounding grows with the distance from bcopy, to 0.02 of the printed unit for single runs and 0.1 for
    means.
    """
    for (_, size), readings in group(sheet.of("lmbench.bw_mem"), lambda r: (r.board, r.params["size"])).items():
        chain = {r.params["operation"]: r for r in readings}
        ranges = [op for op in ORDER[:-1] if op in chain and chain[op].cell.value.kind is CellKind.RANGE]
        own = _own_values(chain)
        if own is None and len(ranges) == len(chain) - ("bcopy" in chain) and _shares_samples(chain, ranges):
            for op in ranges:
                following = ORDER[ORDER.index(op) + 1]
                yield Remark(
                    f"likely averages bw_mem {op} with {following} of {size}, as neighbouring rows share a sample; the "
                    "chain's single end (bcopy) is missing, so which of the two samples is its own is not sure",
                    chain[op],
                    severity=Severity.SUSPECT,
                )
        for op, (value, is_exact) in (own or {}).items():
            yield _pairing_remark(chain[op], op, size, value, is_exact)


def _own_values(chain: Mapping[str, CellReading]) -> dict[str, tuple[float, bool]] | None:
    """Own value of each paired operation; True marks a printed sample.

    None: the chain is not paired.
    """
    end = chain.get(ORDER[-1])
    following = end.number if end else None
    if following is None or len(chain) < 3:
        return None
    own: dict[str, tuple[float, bool]] = {}
    has_gap = False
    for op in reversed(ORDER[:-1]):
        if op not in chain:
            break
        value = chain[op].cell.value
        if value.number is None:
            return None
        # One sample only: nothing to recover, and the next cell tells if it is its own
        if value.low is None or value.high is None:
            following, has_gap = value.number, True
            continue
        rounding = max(_ROUNDING, 1.1 * 10.0 ** -decimals(value.text))
        if not value.low - rounding <= following <= value.high + rounding:
            return _so_far(own, has_gap=has_gap)
        mean = 2 * value.number - following
        sample = next((s for s in (value.low, value.high) if abs(s - mean) <= 2 * rounding), None)
        if not value.low - 5 * rounding <= mean <= value.high + 5 * rounding:
            return _so_far(own, has_gap=has_gap)
        following = mean if sample is None else sample
        own[op] = (round(following, 2), sample is not None)
    return own or None


def _so_far(own: dict[str, tuple[float, bool]], *, has_gap: bool) -> dict[str, tuple[float, bool]] | None:
    """Result of a broken chain.

    It is None unless the chain broke behind a cell of one sample, and two links fit before it.
    """
    return own if has_gap and len(own) >= _LEAST_LINKS else None


def _shares_samples(chain: Mapping[str, CellReading], ranges: list[str]) -> bool:
    """Return whether each operation prints a sample of the next."""
    pairs = [(a, b) for a, b in itertools.pairwise(ranges) if ORDER.index(b) == ORDER.index(a) + 1]
    ends = {op: {chain[op].cell.value.low, chain[op].cell.value.high} for op in ranges}
    return len(pairs) >= 2 and all(ends[a] & ends[b] for a, b in pairs)


def _pairing_remark(reading: CellReading, op: str, size: str, value: float, is_exact: bool) -> Remark:
    following = ORDER[ORDER.index(op) + 1]
    how = "the printed sample that the chain leaves"
    if not is_exact:
        how = (
            f"twice the average less the neighbour's mean, ± {_MOST_OFF * value:.0f}: ±10 % in 82 of 100 such cells, "
            "±25 % in 99"
        )
    return Remark(
        f"averages bw_mem {op} with {following} of {size}: the vendor's parser runs on into the next operation; "
        f"its own value is {value:.2f} ({how})",
        reading,
        corrected=value,
        uncertainty=None if is_exact else _MOST_OFF * value,
    )
