"""Every metric, declared once; the run, the store, the exporter and the report use these."""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from typing import Final

from lab.errors import TestStableError
from lab.metrics.lowpower import RESUMES
from lab.metrics.model import Metric

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
    definition="Of a boot without U-Boot: from the arrival of the last byte of SPL's banner, up to its version, to that of the "
    "Linux prompt.",
    resolution=1e-4,
    source="boardlab, docs/boot-time.md",
)
BOOT_EFI: Final = Metric(
    name="boot.efi_to_prompt",
    unit="s",
    better="lower",
    definition='Of a boot through EFI: from the arrival of the last byte of "EFI stub: Booting Linux Kernel..." to that of the Linux '
    'prompt. U-Boot prints no "Starting kernel ..." then.',
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
    """The metrics of the guides and of the sections beside them, from published.toml; read once."""
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
    found = _names().get(name)
    if found is None:
        raise TestStableError(f"no metric {name!r}; there are: {', '.join(_names())}")
    return found


@functools.cache
def _names() -> dict[str, Metric]:
    return {metric.name: metric for metric in (*ALL, *published())}
