"""The metrics of the vendor's performance guides, from published.toml."""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from typing import Final

from lab.metrics.model import Metric

PRINTED_STEP: Final = 0.01  # the guides print two decimals


@functools.cache
def published() -> tuple[Metric, ...]:
    """Every metric that only the guides define; read once."""
    text = (resources.files("lab.metrics") / "published.toml").read_text(encoding="utf-8")
    return tuple(
        Metric(
            name=entry["name"],
            unit=entry["unit"],
            better=entry["better"],
            definition=entry["definition"],
            resolution=PRINTED_STEP,
            source="Performance guide",
        )
        for entry in tomllib.loads(text)["metric"]
    )
