"""Every figure of each page, of the CSV files and of the exporter, against sums of the stored samples by this file alone.

A figure is a number in what a person reads, or a drawing's title. It is explained if it is one of the expected numbers,
rounded to its own digits; the expected ones are computed here from the rows of the tables, by textbook formulas.
"""

from __future__ import annotations

import math
import re
import sqlite3
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import requests
from attrs import frozen
from support import recorded_run, scraped
from support.web_serving import serving

from exporters.results import ResultsReader
from exporters.server import ResultsSource
from lab.cli.main import main
from lab.results import open_store
from lab.results.snapshot import watch
from lab.web.site import Site

CYCLES, MEDIA = 7, 3
RUNS = [("sk-a", "11.00"), ("sk-b", "11.00"), ("sk-a", "11.01"), ("sk-b", "11.01")]
T_6 = 2.446912  # Student's t at 97.5 % with 6 degrees of freedom
PAGES = ("/", "/wall", "/runs", "/runs/3", "/boards/sk-a", "/releases", "/releases/11.01", "/metrics/boot.time")
# Numbers that are no sums: of names, dates and clocks, versions, definitions, and of the axes of drawings.
NAMES = re.compile(
    r"\b11\.0[01]\b|\bu-boot\b|\bsk-[ab]\b|\bam\d+\w*|\bAM\d+x?\b|[\w.]*\d\w*\.\w*[a-z][\w.]*|\b[0-9a-f]{7,64}\b"
    r"|\d{1,2} [A-Z][a-z]+ \d{4}|\d{4}-\d\d-\d\d|\d\d:\d\d(?::\d\d)?|\bboardlab \S+|\b\d+ (?:s|min|h|d) ago|failed in 24 h"
    r"|'\[[^']*'|\bcycle \d|\b\d+ bytes|host_cpus \d|95 %|\bp95\b|last 60 s|means of 0\.1 s|\bcan\d\b|lab-host-3|\b1[01] values of|sha256"
)
NUMBER = re.compile(r"(?<![\w.])[-+−]?\d[\d,]*(?:\.\d+)?(?!\w)")
SKIPPED = {"script", "style", "template", "nav", "footer", "option", "head", "pre"}
BLOCKS = {"tr", "p", "li", "h1", "h2", "h3", "div", "section", "table", "figure", "figcaption", "summary", "dd"}


@frozen
class Sums:
    """The statistics of a series of samples."""

    values: tuple[float, ...]
    bounds: tuple[float, ...]
    places: tuple[int, ...]  # of their evidence in the log

    @cached_property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @cached_property
    def uncertainty(self) -> float:
        """Student's t times the standard error, and the largest bound of a cycle, in quadrature."""
        return math.hypot(T_6 * statistics.stdev(self.values) / math.sqrt(len(self.values)), max(self.bounds))

    @cached_property
    def figures(self) -> tuple[float, ...]:
        """The mean and its ±, the usual statistics, and each sample with its ± and evidence."""
        ordered = sorted(self.values)
        place = 0.95 * (len(ordered) - 1)
        below = int(place)
        p95 = ordered[below] + (place - below) * (ordered[min(below + 1, len(ordered) - 1)] - ordered[below])
        middle = (min(ordered), max(ordered), statistics.median(ordered), p95, statistics.stdev(ordered))
        return (self.mean, self.uncertainty, *middle, *self.values, *self.bounds, *self.places)


class Lines(HTMLParser):
    """The visible text of a page, a row or a paragraph a line.

    Navigation, choices and the axes of drawings are left out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lines = [""]
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - as HTMLParser calls it
        if tag in SKIPPED or tag == "svg" or (tag == "title" and "svg" in self._inside):
            self._inside.append(tag)
        if tag in BLOCKS or tag == "title":
            self.lines.append("")

    def handle_endtag(self, tag: str) -> None:
        if self._inside and tag == self._inside[-1]:
            self._inside.pop()
        if tag in BLOCKS or tag == "title":
            self.lines.append("")

    def handle_data(self, data: str) -> None:
        if not self._inside or self._inside[-1] == "title":
            self.lines[-1] += f" {data.strip()}" if data.strip() else ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("figures")
    (made / "runtime").mkdir(mode=0o700)
    with open_store(str(made / "results.db")) as store:
        for seed, (board, release) in enumerate(RUNS):
            recorded_run.record(store, virtual=False, cycles=CYCLES, release=release, board=board, seed=seed)
    return made


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with serving(Site(str(folder / "results.db"), runtime=folder / "runtime", folder=folder)) as url:
        yield url


@frozen
class Series:
    """A series of samples, and the words of a line that say it is another's."""

    run: int
    board: str
    metric: str
    medium: str
    stage: str
    sums: Sums

    def fits(self, line: str) -> bool:
        """False: the line names another board, medium or stage."""
        of_board = self.board in line or not re.search(r"\bsk-[ab]\b", line)
        words = {"sd": r"\bsd\b", "emmc": r"\bemmc\b", "ospi": r"\bospi\b"}
        media = {medium for medium, word in words.items() if re.search(word, line, re.IGNORECASE)}
        stages = {stage for _, stage, *_ in recorded_run.BOOT if line.strip().startswith(stage)}
        return of_board and self.medium in (media or words) and self.stage in (stages or {self.stage})

    def follows(self, before: Series) -> bool:
        """True: a later run's."""
        same = (self.board, self.metric, self.medium, self.stage)
        return self.run > before.run and same == (before.board, before.metric, before.medium, before.stage)


def read_series(folder: Path) -> list[Series]:
    """All of the store, from its tables."""
    rows = defaultdict[tuple[int, str, str, str, str], list[tuple[float, float, int, int]]](list)
    with sqlite3.connect(folder / "results.db") as database:
        for run, board, metric, params, *sample in database.execute(
            "SELECT runs.id, board, metric, params, value, uncertainty, log_start, log_end FROM samples JOIN measurements ON "
            "measurements.id = measurement_id JOIN runs ON runs.id = run_id"
        ):
            names = dict(re.findall(r"(medium|stage)\W+([\w -]+)", params))
            rows[run, board, metric, names["medium"], names.get("stage", "")].append(tuple(sample))
    columns = {key: [*zip(*samples, strict=True)] for key, samples in rows.items()}
    return [
        Series(*key, Sums(values, bounds, (*starts, *ends))) for key, (values, bounds, starts, ends) in columns.items()
    ]


def read_counts(folder: Path) -> set[float]:
    """Runs, boards, series, attempts and failures: of a run, of a release, of a board and of all; and failure rates."""
    with sqlite3.connect(folder / "results.db") as database:
        attempts = database.execute(
            "SELECT runs.id, release, board, attempts.params, outcome, coalesce(fault, '') FROM attempts JOIN runs ON "
            "runs.id = run_id"
        ).fetchall()
        series = database.execute(
            "SELECT runs.id, release, board FROM measurements JOIN runs ON runs.id = run_id"
        ).fetchall()
    tally: Counter[tuple[Any, ...]] = Counter()
    for run, release, board, params, outcome, fault in attempts:
        for group in (run, release, board, (run, params), "all"):
            tally.update([(group, "tried"), (group, outcome), (group, fault)])
            tally.update([(group, "failed")] * (outcome != "ok"))
    tally.update((group, "series") for row in series for group in (*row, "all"))
    counts: set[float] = {len({board for board, _ in RUNS}), MEDIA, CYCLES, *range(len(RUNS) + 1), *tally.values()}
    for run, params in {(run, params) for run, _release, _board, params, _outcome, _fault in attempts}:
        group = (run, params)
        failed, good = tally[group, "board"], tally[group, "ok"]
        counts |= {failed + good, *wilson_percent(failed, failed + good)}
    return counts


def wilson_percent(failed: int, tried: int) -> Iterator[float]:
    """A rate with its interval at 95 % (E. B. Wilson, J. Am. Stat. Assoc. 22, 1927), in percent."""
    z, rate = 1.959964, failed / tried
    middle, width = rate + z * z / (2 * tried), z * math.sqrt(rate * (1 - rate) / tried + (z / tried / 2) ** 2)
    for bound in (rate * (1 + z * z / tried), middle - width, middle + width):
        yield 100.0 * bound / (1 + z * z / tried)


def unexplained(lines: list[str], series: list[Series], counts: set[float]) -> list[str]:
    """The figures of a text that are none of the expected ones, with their lines."""
    wrong = []
    for line in lines:
        numbers = NUMBER.findall(NAMES.sub(" ", line))
        if not numbers:
            continue
        ours = [one for one in series if one.fits(line)]
        expected = [*counts, *(figure for one in ours for figure in one.sums.figures)]
        pairs = [(old, new) for old in ours for new in ours if new.follows(old)]
        expected += [figure for pair in pairs for figure in differences(*pair)]
        for text in numbers:
            number = text.replace(",", "").replace("−", "-")
            half = 0.5 * 10.0 ** -len(number.partition(".")[2])
            if not any(abs(abs(float(number)) - abs(figure)) <= half * 1.0001 for figure in expected):
                wrong.append(f"{text} in {line.strip()[:150]!r}")
    return wrong


def differences(before: Series, now: Series) -> Iterator[float]:
    """Of two runs of one series, with its ±."""
    yield now.sums.mean - before.sums.mean
    yield math.hypot(before.sums.uncertainty, now.sums.uncertainty)


@pytest.mark.parametrize("page", PAGES)
def test_each_figure_of_a_page_is_a_sum_of_the_store(page: str, address: str, folder: Path) -> None:
    parser = Lines()
    parser.feed(requests.get(f"{address}{page}", timeout=60).text)
    assert unexplained(parser.lines, read_series(folder), read_counts(folder)) == []


@pytest.mark.parametrize("run", range(1, len(RUNS) + 1))
def test_each_figure_of_a_run_in_the_terminal_is_a_sum_of_the_store(
    run: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["results", "show", str(run), "--db", str(folder / "results.db")]) == 0
    series = [one for one in read_series(folder) if one.run == run]
    assert unexplained(capsys.readouterr().out.splitlines(), series, read_counts(folder)) == []


def test_each_number_of_the_exporter_is_a_sum_of_the_store(folder: Path) -> None:
    source = ResultsSource(ResultsReader(watch(f"sqlite:///{folder}/results.db")))
    scrape = scraped.scrape(b"".join(source.read().pieces()).decode())
    families = {
        "boot.time": "boardlab_boot_duration",
        "boot.power_on_to_prompt": "boardlab_boot_power_on_to_prompt",
        "boot.stage": "boardlab_boot_stage_duration",
    }
    for one in read_series(folder):
        labels = {"board": one.board, "release": RUNS[one.run - 1][1], "medium": one.medium}
        labels |= {"stage": one.stage} if one.stage else {}
        family = families[one.metric]
        assert scrape.one(f"{family}_seconds", stat="avg", **labels) == pytest.approx(one.sums.mean)
        assert scrape.one(f"{family}_samples", **labels) == CYCLES
        uncertainty = scrape.one(f"{family}_uncertainty_seconds", **labels)
        assert uncertainty == pytest.approx(one.sums.uncertainty, rel=1e-5)


def test_a_figure_that_is_no_sum_of_its_board_medium_and_stage_is_seen(folder: Path) -> None:
    series, counts = read_series(folder), read_counts(folder)
    (mean,) = (one.sums.mean for one in series if (one.run, one.metric, one.medium) == (3, "boot.time", "sd"))
    assert unexplained([f"sk-a sd {mean:.4f} s"], series, counts) == []
    for line in (f"sk-b sd {mean:.4f} s", f"sk-a emmc {mean:.4f} s", f"sk-a sd {mean + 0.011:.4f} s", "sk-a 99 runs"):
        assert len(unexplained([line], series, counts)) == 1, line
