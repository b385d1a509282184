"""Prometheus' text format, read back."""

from __future__ import annotations

from attrs import frozen
from prometheus_client.parser import text_string_to_metric_families


@frozen
class Scrape:
    """What an exporter said: (name, labels) -> value."""

    values: dict[tuple[str, frozenset[tuple[str, str]]], float]

    def __getitem__(self, name: str) -> float:
        """The only series of that name."""
        (value,) = self.all(name).values()
        return value

    def all(self, name: str, **labels: str) -> dict[frozenset[tuple[str, str]], float]:
        """The series of that name with these labels among theirs."""
        return {
            found: value
            for (called, found), value in self.values.items()
            if called == name and found >= frozenset(labels.items())
        }

    def one(self, name: str, **labels: str) -> float:
        """The only series of that name with these labels among its own."""
        found = self.all(name, **labels)
        assert len(found) == 1, f"{name}{labels}: {len(found)} series"
        return next(iter(found.values()))

    @property
    def names(self) -> set[str]:
        """All names of series."""
        return {name for name, _ in self.values}


def scrape(text: str) -> Scrape:
    """Read it; each series may come once."""
    values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in values, f"{key} comes twice"
            values[key] = sample.value
    return Scrape(values)
