"""The families of the exporter, which mkdocs puts into docs/farm-metrics.md: name, labels, help text."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from exporters.measurements import name_of
from lab.metrics.catalogue import ALL, published
from lab.metrics.rates import RATES

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support import farm_scrape

_MARK: Final = "<!-- the families -->"
_SUFFIX: Final = {"counter": "_total"}


def lines() -> Iterator[str]:
    """The table: every family but those of the results' metrics."""
    results = {
        text
        for metric in (*ALL, *RATES.values(), *published())
        for name in (name_of(metric),)
        for text in (name.value, name.uncertainty, name.samples)
    }
    yield from ("| Family | Labels | Meaning |", "|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        page = farm_scrape.page(Path(folder))
    for family in sorted(text_string_to_metric_families(page), key=lambda each: each.name):
        if family.name not in results:
            labels = dict.fromkeys(name for sample in family.samples for name in sample.labels if name != "le")
            name = family.name + _SUFFIX.get(family.type, "")
            yield f"| `{name}` | {', '.join(f'`{label}`' for label in labels)} | {family.documentation} |"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with the table in place of its mark."""
    return markdown.replace(_MARK, "\n".join(lines())) if _MARK in markdown else markdown
