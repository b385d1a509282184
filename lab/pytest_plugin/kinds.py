"""Which fixture measures for which kind of run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MEASURERS: Final[Mapping[str, str]] = {
    "boot_measurer": "boot",
    "low_power_measurer": "low_power",
    "section_measurer": "sections",
}
