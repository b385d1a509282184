"""The file of docs/measure.md, and what has to be in the results when it has run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import requests

from exporters.results import ResultsReader
from exporters.server import ResultsSource
from lab.judge.baseline import judge_run
from lab.metrics import Flag
from lab.results import Store
from lab.results.snapshot import watch
from lab.web.site import Site
from support.scraped import scrape
from support.web_serving import serving

PAGE: Final = Path(__file__).parents[2] / "docs" / "measure.md"
FILE: Final = "test_first_frame.py"
METRIC: Final = "camera.first_frame"
_LINES: Final = 12


def write(folder: Path) -> None:
    """Write the page's file, as it stands there."""
    (block,) = re.findall(rf"`{FILE}`:\n\n```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len([line for line in block.splitlines() if line]) <= _LINES
    (folder / FILE).write_text(block, encoding="utf-8")


def assert_kept(store: Store, run_id: int, cycles: int) -> None:
    """The run has the number, with its ± and its evidence."""
    run, (number,) = store.run(run_id), store.measurements(run_id)
    assert (run.kind, run.status) == ("measure", "completed")
    assert (number.metric.name, number.metric.unit, number.metric.resolution) == (METRIC, "s", 0.001)
    assert [sample.cycle for sample in number.samples] == list(range(1, cycles + 1))
    assert {sample.uncertainty for sample in number.samples} == {0.0005}
    assert Flag.SIMULATED in number.flags
    for attempt in store.attempts(run_id):
        log = attempt.artifact("console-log")
        assert log is not None
        text, (sample,) = store.artifacts.read(log.sha256), attempt.samples
        assert b"Starting kernel" in text, "each cycle begins from power off"
        assert b"cat /proc/uptime" in text[sample.log_start : sample.log_end]
        assert attempt.details["software"]["kernel"]


def assert_compared(store: Store, run_id: int) -> None:
    """The judge compares it with the run before."""
    with watch(store.url).snapshot() as snapshot:
        (judged,) = judge_run(snapshot, run_id).numbers
    assert judged.average.metric.name == METRIC
    assert judged.judgement.verdict.value not in {"no history", "no verdict"}


def assert_shown(store: Store, run_id: int) -> None:
    """The exporter has it, and the pages of its board, its run and its metric."""
    found = scrape(b"".join(ResultsSource(ResultsReader(watch(store.url))).read().pieces()).decode())
    mean = sum(sample.value for sample in store.samples(run_id)) / len(store.samples(run_id))
    assert abs(found.one("boardlab_camera_first_frame_seconds", stat="avg") - mean) < 1e-9
    with serving(Site(store.url)) as url:
        board = store.run(run_id).board
        for page in (f"boards/{board}", f"runs/{run_id}", f"metrics/{METRIC}"):
            answer = requests.get(f"{url}/{page}", timeout=30)
            assert answer.status_code == 200, page
            assert re.search("irst.frame", answer.text), page
