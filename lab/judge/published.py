"""The numbers of published guides in the store, as the judge takes them: with what the guides' rules and conditions say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self, TypeAlias

from attrs import frozen

from lab.judge.number import Evidence, Number
from lab.results.averages import Average
from lab.results.records import EVIDENCE
from lab.results.snapshot import RunHead, StoreSnapshot

_What: TypeAlias = tuple[str, frozenset[tuple[str, str]]]


@frozen
class PublishedNumbers:
    """What is known of the numbers of some runs.

    Attributes:
        known: run and number -> what its guide says of it. releases: run -> its release.
    """

    known: Mapping[tuple[int, _What], Evidence]
    releases: Mapping[int, str]

    @classmethod
    def of_runs(cls, snapshot: StoreSnapshot, heads: Iterable[RunHead]) -> Self:
        """Read them."""
        releases = {head.id: head.release for head in heads}
        known = {
            (run_id, _what(document["metric"], document["params"])): Evidence.of_document(document)
            for run_id, details in snapshot.details(sorted(releases))
            for document in details.get(EVIDENCE, ())
        }
        return cls(known, releases)

    def number(self, average: Average, source: str = "") -> Number:
        """A number with its evidence.

        Args:
            source: how sentences call where it comes from; empty: its release.
        """
        evidence = self.known.get((average.run_id, _what(average.metric.name, average.params)))
        if evidence is None:
            evidence = Evidence(
                incomparable="imported by an older boardlab, which kept no evidence; import the guide again"
            )
        name = source or self.releases[average.run_id]
        return Number(name, average.metric, average.params, average.value, None, evidence)


def _what(metric: str, params: Mapping[str, str]) -> _What:
    return metric, frozenset(params.items())
