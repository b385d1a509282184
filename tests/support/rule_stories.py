"""Stories of a farm for `promtool test rules`: the series that the exporter would have, night by night, and what is told."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from attrs import define, field

from support.atlength import either

RULES: Final = Path(__file__).resolve().parents[2] / "farm" / "prometheus" / "rules"
STEP_S: Final = 300  # between samples
EVERY_S: Final = either(900, STEP_S)  # between evaluations of the rules
DAY_S: Final = 86_400
NIGHT_S: Final = 2 * 3600  # when the timer comes due
ENDS_S: Final = NIGHT_S + 1800  # when its job has ended
FIRST_SEEN_S: Final = -DAY_S  # of what was before the story begins
MEDIA: Final = ("sd", "emmc", "ospi")


@define
class Story:
    """Series by their selectors, as (second, value) from which on they have that value; None: there is none yet.

    Attributes:
        days: how long it is.
    """

    days: int
    series: dict[str, list[tuple[int, float | None]]] = field(factory=dict)

    def set(self, selector: str, at_s: int, value: float | None) -> None:
        """From a second on, a series has a value."""
        self.series.setdefault(selector, []).append((at_s, value))

    def document(self, tests: Sequence[Mapping[str, Any]], every_s: int = EVERY_S) -> dict[str, Any]:
        """A file for promtool, with an exporter that answers; `every_s`: how often the rules are evaluated."""
        series = {'up{job="boardlab"}': [(0, 1.0)], **self.series}
        inputs = [{"series": name, "values": self._values(steps)} for name, steps in series.items()]
        test = {"interval": f"{STEP_S}s", "input_series": inputs, "promql_expr_test": list(tests)}
        rules = [str(path) for path in sorted(RULES.iterdir())]
        return {"rule_files": rules, "evaluation_interval": f"{every_s}s", "tests": [test]}

    def _values(self, steps: Iterable[tuple[int, float | None]]) -> str:
        ordered = sorted(steps, key=lambda step: step[0])
        ends = [at for at, _ in ordered[1:]] + [self.days * DAY_S]
        parts = ["_x" + str(max(0, ordered[0][0]) // STEP_S)] if ordered[0][0] >= STEP_S else []
        for (at, value), end in zip(ordered, ends, strict=True):
            count = max(0, end) // STEP_S - max(0, at) // STEP_S
            if count:
                parts.append(f"_x{count}" if value is None else f"{value:g}x{count - 1}")
        return " ".join(parts)


@define
class Board:
    """A board with a nightly schedule of boots, in a story.

    Attributes:
        spread_s: how much later its timer starts.
    """

    story: Story
    name: str = "b1"
    classes: Sequence[str] = ("kernel_panic", "hang_kernel", "silent", "power_off_ineffective")
    spread_s: int = 0
    _counts: dict[str, int] = field(factory=dict, init=False)

    def watched(self) -> Board:
        """The schedule and the counters are there from the start."""
        self.story.set(self._schedule("interval_seconds"), 0, DAY_S)
        for outcome in ("ok", *self.classes):
            self.story.set(self._outcome(outcome), 0, 0)
            self._counts[outcome] = 0
        for medium in MEDIA:
            self.samples(0, medium, 20)
        self.succeeded(FIRST_SEEN_S + ENDS_S)
        return self

    def due(self, days: Iterable[int]) -> None:
        """The timer comes due in these nights."""
        self.story.set(self._schedule("due_timestamp_seconds"), 0, FIRST_SEEN_S + NIGHT_S)
        for day in days:
            self.story.set(self._schedule("due_timestamp_seconds"), day * DAY_S + NIGHT_S, day * DAY_S + NIGHT_S)

    def attempted(self, at_s: int, outcome: str, count: int) -> None:
        """So many attempts end so."""
        self._counts[outcome] += count
        self.story.set(self._outcome(outcome), at_s, self._counts[outcome])

    def fails(self, at_s: int, outcome: str, until_s: int, items: Iterable[str] = ()) -> None:
        """The exporter shows a cause, and of which items it explains that samples are missing, until it is over."""
        its = f'board="{self.name}",board_type="am62xx_sk",release="11.01",outcome="{outcome}",cause="",state="dead"'
        for selector in (
            f"boardlab_failing{{{its}}}",
            *(f'boardlab_failing_item{{board="{self.name}",kind="boot",item="{item}"}}' for item in items),
        ):
            self.story.set(selector, at_s, 1)
            self.story.set(selector, until_s, None)

    def samples(self, at_s: int, medium: str, present: int, planned: int = 20) -> None:
        """The last job's samples of a medium."""
        item = f'{{schedule="nightly",board="{self.name}",kind="boot",item="{medium}"}}'
        self.story.set(f"boardlab_schedule_planned_samples{item}", at_s, planned)
        self.story.set(f"boardlab_schedule_present_samples{item}", at_s, present)

    def succeeded(self, at_s: int) -> None:
        """A job ends well."""
        self.story.set(self._schedule("last_success_timestamp_seconds"), max(0, at_s), at_s)

    def failed(self, at_s: int) -> None:
        """A job ends otherwise."""
        self.story.set(self._schedule("last_failure_timestamp_seconds"), at_s, at_s)

    def good_night(self, day: int) -> None:
        """All sixty boots."""
        at_s = day * DAY_S + ENDS_S + self.spread_s
        self.attempted(at_s, "ok", 60)
        self.succeeded(at_s)
        for medium in MEDIA:
            self.samples(at_s, medium, 20)

    def _schedule(self, what: str) -> str:
        return f'boardlab_schedule_{what}{{schedule="nightly",board="{self.name}",suite="boot",release="11.01"}}'

    def _outcome(self, outcome: str) -> str:
        return f'boardlab_outcomes_total{{board="{self.name}",board_type="am62xx_sk",outcome="{outcome}"}}'


def told_from(alert: str, series: int, from_s: int, until_s: int) -> list[dict[str, Any]]:
    """promtool's tests that so many alerts of a name fire from one second to another, without a break, and at no other time."""
    firing = f'ALERTS{{alertname="{alert}",alertstate="firing"}}'
    times = (until_s - from_s) // EVERY_S + 1
    counted = f"sum(count_over_time({firing}[40d]))"
    first = f"min(min_over_time(timestamp({firing})[40d:{EVERY_S}s]))"
    end = f"{until_s + DAY_S}s"
    return [
        {"expr": counted, "eval_time": end, "exp_samples": [{"labels": "{}", "value": series * times}]},
        {"expr": first, "eval_time": end, "exp_samples": [{"labels": "{}", "value": from_s}]},
    ]


def only(alerts: Iterable[str], at_s: int) -> dict[str, Any]:
    """promtool's test that nothing else has ever fired until then."""
    others = f'ALERTS{{alertstate="firing",alertname!~"{"|".join(alerts)}"}}'
    return {"expr": f"count(count_over_time({others}[40d]))", "eval_time": f"{at_s}s", "exp_samples": []}


def promtool(folder: Path, document: Mapping[str, Any]) -> str:
    """Put it to promtool; returns what it says where it is not content."""
    path = folder / "story.yml"
    path.write_text(yaml.safe_dump(document))
    done = subprocess.run(["promtool", "test", "rules", path], check=False, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr
