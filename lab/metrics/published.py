"""The metrics of the vendor's performance guides and of the sections beside them, from published.toml."""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from typing import Final

from lab.metrics.model import Metric

PRINTED_STEP: Final = 0.01  # the guides print two decimals


@functools.cache
def published() -> tuple[Metric, ...]:
    """Every metric of the file; read once."""
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
