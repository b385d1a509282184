"""All metrics, declared once for run, store, exporter and report."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Final

from attrs import frozen

from lab.errors import TestStableError
from lab.metrics.model import Metric
from lab.metrics.rates import RATES
from lab.sleep_modes import SLEEP_MODES, LowPowerMode

STATES: Final = {  # of a board that does not sleep -> when its power is measured
    "off": "while the board is switched off and its console is silent, from 1.5 s after that",
    "idle": "while Linux waits at its prompt, its processors busy for at most 10 %",
    "full_load": "while a program keeps each processor busy for at least 90 %; the parameter `program` names it",
}


@frozen
class Resume:
    """Metrics of a mode, or of a state of `STATES`; `kernel` and `first_byte`: None if resuming is a boot.

    Attributes:
        kernel: the vendor's.
        first_byte, prompt: the host's; None of a state.
        rail, total: power meanwhile, of one rail and of all.
        efficiency: of the board's supplies meanwhile.
        energy: of a suspend and resume; None as for `kernel`.
        rail_voltage: of the rails that must be off; None: the mode switches none off.
    """

    kernel: Metric | None
    first_byte: Metric | None
    prompt: Metric | None
    rail: Metric
    total: Metric
    energy: Metric | None
    rail_voltage: Metric | None = None
    efficiency: Metric | None = None

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """All metrics of the mode."""
        return tuple(
            metric
            for metric in (
                *(self.kernel, self.first_byte, self.prompt),
                *(self.rail, self.total, self.efficiency, self.energy, self.rail_voltage),
            )
            if metric is not None
        )


def _resume(mode: str, of_mode: LowPowerMode) -> Resume:
    kernel = Metric(
        name=f"lpm.{mode}.resume_kernel",
        unit="ms",
        better="lower",
        definition='From the kernel\'s "Enabling non-boot CPUs" (with one CPU or from s2idle: its first line of the '
        "resume) "
        'to "PM: suspend exit", on its own clock, with the consoles detached. The firmware\'s share is not in it.',
        resolution=1e-3,
        source='Performance guide, "Resume Latency Performance"',
    )
    first_byte = Metric(
        name=f"lpm.{mode}.resume_wake_to_first_byte",
        unit="ms",
        better="lower",
        definition="From the edge with which the host wakes the board to the first byte on its console.",
        resolution=1e-1,
        source="boardlab, docs/low-power.md",
    )
    prompt = Metric(
        name=f"lpm.{mode}.resume_wake_to_prompt",
        unit="ms",
        better="lower",
        definition="From the edge with which the host wakes the board to the answer of its shell; from a mode that is "
        "left by a boot, to the login prompt.",
        resolution=1e-1,
        source="boardlab, docs/low-power.md",
    )
    powers = _powers(mode, "while the board sleeps, from 1.5 s after its console fell silent to the wake-up")
    energy = Metric(
        name=f"lpm.{mode}.energy",
        unit="J",
        better="lower",
        definition="Energy of a supply rail, or of all that are measured, from the command that sends the board to "
        "sleep to the answer of its shell.",
        resolution=1e-6,
        source="boardlab, docs/low-power.md",
    )
    rail_voltage = Metric(
        name=f"lpm.{mode}.rail_voltage",
        unit="V",
        better="lower",
        definition="The highest mean voltage of the supply rails that must be off in this mode: of all that are "
        "measured but those that stay on by design. Without the wake-up, and while the console is silent.",
        resolution=1e-3,
        source='Performance guide, "Partial I/O Data": all voltage rails were measured to be near 0V',
    )
    if of_mode.boots:
        return Resume(None, None, prompt, *powers, None, rail_voltage)
    return Resume(kernel, first_byte, prompt, *powers, energy, efficiency=_efficiency(mode, "while the board sleeps"))


def _powers(mode: str, when: str, source: str = 'Performance guide, "Power Performance"') -> tuple[Metric, Metric]:
    """Of one rail and of all."""

    def power(name: str, whose: str) -> Metric:
        definition = f"Mean power {whose} {when}."
        return Metric(f"lpm.{mode}.{name}", "mW", "lower", definition, resolution=1e-2, source=source)

    return power("power_rail", "of one supply rail"), power("power_total", "of all measured rails")


def _efficiency(mode: str, when: str) -> Metric:
    return Metric(
        name=f"lpm.{mode}.efficiency",
        unit="%",
        better="higher",
        definition=f"Power of all measured rails by that of the board's input {when}: the efficiency of its supplies, "
        "where every rail that they feed is measured.",
        resolution=1e-2,
        source="boardlab, docs/rails.md",
    )


def _state(state: str, when: str) -> Resume:
    powers = _powers(state, when, "boardlab, docs/low-power.md")
    efficiency = None if state == "off" else _efficiency(state, when)
    return Resume(None, None, None, *powers, None, efficiency=efficiency)


RESUMES: Final[Mapping[str, Resume]] = {
    name: _resume(name, mode) for name, mode in sorted(SLEEP_MODES.items(), key=lambda named: named[1].boots)
} | {state: _state(state, when) for state, when in STATES.items()}


PRINTED_STEP: Final = 0.01  # the guides print two decimals
GUIDE: Final = 'Performance guide, "Boot-time Measurement"'

BOOT_TIME: Final = Metric(
    name="boot.time",
    unit="s",
    better="lower",
    definition='From the arrival of the last byte of "Starting kernel ..." to that of the Linux prompt.',
    resolution=1e-4,
    source=GUIDE,
)
BOOT_POWER_ON: Final = Metric(
    name="boot.power_on_to_prompt",
    unit="s",
    better="lower",
    definition="From the power switch's acknowledgement of on to the arrival of the last byte of the Linux prompt.",
    resolution=1e-3,
    source="boardlab, docs/boot-time.md",
)
BOOT_SPL: Final = Metric(
    name="boot.spl_to_prompt",
    unit="s",
    better="lower",
    definition="Of a boot without U-Boot: from the arrival of the last byte of SPL's banner, up to its version, to "
    "that of the Linux prompt; in a flow of a lab's own type from the moment that it counts from.",
    resolution=1e-4,
    source="boardlab, docs/boot-time.md",
)
BOOT_EFI: Final = Metric(
    name="boot.efi_to_prompt",
    unit="s",
    better="lower",
    definition='Of a boot through EFI: from the arrival of the last byte of "EFI stub: Booting Linux Kernel..." to '
    'that of the Linux prompt. U-Boot prints no "Starting kernel ..." then.',
    resolution=1e-4,
    source="boardlab, docs/boot-time.md",
)
BOOT_STAGE: Final = Metric(
    name="boot.stage",
    unit="s",
    better="lower",
    definition="Between two neighbouring moments of a boot; the parameter `stage` names the later one.",
    resolution=1e-4,
    source="boardlab, docs/boot-time.md",
)

HEADLINES: Final = (BOOT_TIME, BOOT_SPL, BOOT_EFI)  # one of them is of every good boot
HEADLINE_NAMES: Final = frozenset(metric.name for metric in HEADLINES)
ALL: Final = (
    BOOT_TIME,
    BOOT_POWER_ON,
    BOOT_SPL,
    BOOT_EFI,
    BOOT_STAGE,
    *(m for r in RESUMES.values() for m in r.metrics),
)


@functools.cache
def published() -> tuple[Metric, ...]:
    """Metrics of the guides and related sections, from published.toml."""
    text = (resources.files("lab.metrics") / "published.toml").read_text(encoding="utf-8")
    return tuple(
        Metric(
            name=entry["name"],
            unit=entry["unit"],
            better=entry["better"],
            definition=entry["definition"],
            resolution=entry.get("resolution", PRINTED_STEP),
            source=entry.get("source", "Performance guide"),
            quantum=entry.get("quantum", ""),
            vendor=entry.get("vendor", ""),
        )
        for entry in tomllib.loads(text)["metric"]
    )


def by_name(name: str) -> Metric:
    """The metric of that name.

    Raises:
        TestStableError: no such metric.
    """
    metric = find(name)
    if metric is None:
        raise TestStableError(f"no metric {name!r}; there are: {', '.join(_names())}")
    return metric


def find(name: str) -> Metric | None:
    """The metric of that name; None: it is a lab's own, or there is none."""
    return _names().get(name)


def names() -> Iterable[str]:
    """The names of all metrics that boardlab measures."""
    return _names()


@functools.cache
def _names() -> dict[str, Metric]:
    return {metric.name: metric for metric in (*ALL, *RATES.values(), *published())}
