"""Rail sensors, as the sampler tells (lab.host.runtime.RailStatus). Where nobody samples there is nothing."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen
from prometheus_client import Metric

from exporters.farm.build import counter, gauge
from lab.host import runtime
from lab.host.runtime import RailStatus


@frozen
class RailsCollector:
    """The rails that samplers of this runtime folder read."""

    runtime: Path

    def read(self) -> list[Metric]:
        """What was told last of each rail."""
        found = [((r.board, r.rail), r) for r in runtime.read_all(self.runtime / runtime.RAILS, RailStatus)]
        labels = ["board", "rail"]
        return [
            gauge("boardlab_rail_rate_hertz", "Samples per second.", labels, [(k, r.rate_hz) for k, r in found]),
            counter("boardlab_rail_samples", "Samples.", labels, [(k, r.samples) for k, r in found]),
            counter("boardlab_rail_gaps", "Gaps between samples.", labels, [(k, r.gaps) for k, r in found]),
            gauge(
                "boardlab_rail_told_timestamp_seconds",
                "When the sampler told this.",
                labels,
                [(k, r.at) for k, r in found],
            ),
        ]
