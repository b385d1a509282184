"""The numbers of a boot from its moments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from attrs import frozen

from lab.benchmarks.boot.flows import BootFlow
from lab.benchmarks.boot.records import EFI_START, ENDS, START, MomentLike, PowerEdge
from lab.boards import NORMAL
from lab.errors import LabTransientError
from lab.metrics import Flag, Metric, SampleRecord, uncertainty
from lab.metrics.catalogue import BOOT_EFI, BOOT_POWER_ON, BOOT_SPL, BOOT_STAGE, BOOT_TIME, HEADLINES
from lab.metrics.model import sample_of
from lab.metrics.uncertainty import UNCERTAIN_SHARE

REFUSED_SHARE = 0.1  # ± of a boot time, as a share of it, beyond which it is none
_HEADLINES = {START: BOOT_TIME, EFI_START: BOOT_EFI}  # by the moment that it counts from; any other is SPL's


@frozen
class _Instant:
    """An end of an interval."""

    t_ns: int
    uncertainty_ns: int
    position: int


def boot_samples(
    flow: BootFlow,
    moments: Sequence[MomentLike],
    prompt: MomentLike,
    power: PowerEdge,
    params: Mapping[str, str],
    flags: frozenset[Flag],
) -> list[SampleRecord]:
    """A boot's headline time, stages, and time from power on.

    A boot with typed input has no time from power on.

    Args:
        moments: all of the boot.
        params: of all of them; with `init`, U-Boot's prompt was used on the way.

    Raises:
        LabTransientError: the ± of the boot time is beyond `REFUSED_SHARE` of it, or a time is negative.
    """
    if flow.name != NORMAL:
        params = {**params, "flow": flow.name}
    start = next(moment for moment in flow.order if moment.name == flow.start)
    on = power_on(power, flow.order[0])
    doubts = {Flag.OFF_UNVERIFIED: not power.off_verified, Flag.ON_UNVERIFIED: not power.on_verified}
    from_power = flags | {flag for flag, holds in doubts.items() if holds}
    headline = _HEADLINES.get(flow.start, BOOT_SPL)
    samples = [_sample(headline, params, _instant(start, len(start.text.encode())), _instant(prompt), flags)]
    _check_boot_time(samples[0])
    if "init" not in params:
        samples.append(_sample(BOOT_POWER_ON, params, on, _instant(prompt), from_power))
    for title, begin, moment in stages(flow, moments, prompt):
        if "init" not in params or moment.t_ns > start.t_ns:
            its_flags = from_power if begin is None else flags
            since = on if begin is None else _instant(begin)
            samples.append(_sample(BOOT_STAGE, {**params, "stage": title}, since, _instant(moment), its_flags))
    return samples


def stages(
    flow: BootFlow, moments: Sequence[MomentLike], prompt: MomentLike
) -> Iterator[tuple[str, MomentLike | None, MomentLike]]:
    """The complete stages: title, start (None: power on), end.

    Without a lost moment, the time between its neighbours is no stage. If a text comes several times in a healthy
    boot and came less often, the lost one is unknown: the moment counts as lost.
    """
    counts = Counter(moment.name for moment in moments)
    lost = {pattern.name for pattern in flow.patterns if counts[pattern.name] < pattern.times and pattern.times > 1}
    by_name = {moment.name: moment for moment in flow.order if moment.name not in lost}
    staged = [p for p in flow.patterns if p.stage and (p.name == prompt.name or p.name not in ENDS)]
    before: MomentLike | None = None
    for number, pattern in enumerate(staged):
        moment = by_name.get(pattern.name)
        if moment is not None and (before is not None or number == 0):
            yield pattern.stage, before, moment
        before = moment


def power_on(power: PowerEdge, first: MomentLike) -> _Instant:
    """The instant of power-on, at the latest at the first byte.

    Raises:
        LabTransientError: it printed before the switch's request.
    """
    if first.t_ns < power.requested_ns:
        raise LabTransientError(
            f"the board printed {first.text.strip()!r} {(power.requested_ns - first.t_ns) / 1e9:.3f} s before it was "
            "switched on: it was not off, or this is another board's console. Look at the outlet, the relay and "
            "the cables",
            failure="impossible_times",
        )
    on_ns = min(power.acknowledged_ns, first.t_ns)
    return _Instant(on_ns, on_ns - power.requested_ns, 0)


def _check_boot_time(sample: SampleRecord) -> None:
    if sample.uncertainty > REFUSED_SHARE * sample.value:
        raise LabTransientError(
            f"the boot took {sample.value:.3f} s ± {sample.uncertainty:.3f} s, and that sure is not sure enough: the "
            "host was held up while it read the console. Look for what kept it busy, or stopped the console server "
            "(lab console list)",
            failure="stamps_uncertain",
        )


def _sample(
    metric: Metric, params: Mapping[str, str], begin: _Instant, end: _Instant, flags: frozenset[Flag]
) -> SampleRecord:
    """The sample of an interval."""
    value_s = (end.t_ns - begin.t_ns) / 1e9
    uncertainty_s = uncertainty.of_interval(begin.uncertainty_ns, end.uncertainty_ns) / 1e9
    if value_s < 0:
        raise LabTransientError(
            f"{metric.name} {dict(params)} would be {value_s:.6f} s: no time is negative, so one of its two "
            "stamps is wrong",
            failure="impossible_times",
        )
    if metric not in HEADLINES and uncertainty_s > UNCERTAIN_SHARE * value_s:
        flags |= {Flag.UNCERTAIN}
    return sample_of(metric, params, value_s, uncertainty_s, flags, (begin.position, end.position))


def _instant(moment: MomentLike, text_bytes: int = 0) -> _Instant:
    """A moment's instant; its window begins `text_bytes` before its end."""
    return _Instant(moment.t_ns, moment.uncertainty_ns, moment.position - text_bytes)
