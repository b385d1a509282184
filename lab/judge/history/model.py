"""A history and what the judge says of it, as records."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

# What of a run's provenance the judge looks at. The hashes of an image show that two runs had the same; the version lines of the
# kernel and U-Boot (software) and the release's label can only show that they had not, since user space may differ.
CAUSES = ("image", "software", "release", "board", "card", "adapter", "host", "tester")


class Outcome(enum.StrEnum):
    """What is said of one run of one series."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    ENVIRONMENT = "environment"  # something other than a new image moved the number
    UNSURE = "unsure: rerun asked"
    NO_HISTORY = "no history"
    NO_SAMPLES = "no samples"  # nothing was measured; nothing is said of it
    UNCHANGED = "none"


@frozen(eq=False)
class Run:
    """One run of one metric.

    Attributes:
        samples: in the metric's unit, shape (n,); what is not finite and above 0 does not count.
        provenance: the causes (CAUSES) as far as they are known.
        reruns: samples of further runs of the same night and image, in order; None where none can be had.
    """

    samples: npt.NDArray[np.float64]
    provenance: Mapping[str, str] = field(factory=dict)
    reruns: tuple[npt.NDArray[np.float64], ...] | None = None


@frozen(eq=False)
class Series:
    """One metric of one board under the same parameters, run by run from the oldest."""

    name: str
    runs: tuple[Run, ...]
    higher_is_better: bool = False


@frozen
class Verdict:
    """What the judge says of a run.

    Attributes:
        series, run: the series' name and the run's index in it.
        reruns: how many of the run's reruns were used; of UNSURE: how many are asked for by now.
        since: index of the run that the change began with; None where there is no change.
        n: samples since then.
        effect: relative change of the number, 0.02 is 2 % more (not: worse). low, high: its 95 % interval.
        mode: the change is a new mode of single boots; the effect is then the modes' distance, and has no interval.
        differs: cause -> (before, since), of what is known of both runs.
    """

    series: str
    run: int
    outcome: Outcome
    reruns: int = 0
    since: int | None = None
    n: int = 0
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    mode: bool = False
    differs: Mapping[str, tuple[str, str]] = field(factory=dict)
