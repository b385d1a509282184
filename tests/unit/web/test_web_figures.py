"""Every figure of each page, mail and terminal, and of the exporter, against sums of the stored samples by this file alone.

A figure is a number in what a person reads, or a drawing's title. It is explained if it is one of the expected numbers,
rounded to its own digits; the expected ones are computed here from the rows of the tables, by textbook formulas.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import random
import re
import sqlite3
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import requests
from attrs import frozen
from support import recorded_run, scraped
from support.judged_store import Nights
from support.web_serving import serving

from exporters.results import ResultsReader
from exporters.server import ResultsSource
from lab.cli.main import main
from lab.judge import summary
from lab.judge.run_judge import judge_run
from lab.judge.text import EvidenceLinks
from lab.results import AttemptRecord, Store, open_store
from lab.results.records import SampleRecord
from lab.results.snapshot import watch
from lab.web.site import Site

CYCLES, MEDIA = 7, 3
RUNS = [("sk-a", "11.00"), ("sk-b", "11.00"), ("sk-a", "11.01"), ("sk-b", "11.01")]
T_6 = 2.446912  # Student's t at 97.5 % with 6 degrees of freedom
GUIDES = (
    "/guides",
    "/guides/11.01",
    "/guides/11.01?form=html",
    "/guides/11.01?form=rst",
    "/releases/11.01/comment.md",
)
PAGES = (
    "/",
    "/wall",
    "/runs",
    "/runs/3",
    "/boards/sk-a",
    "/releases",
    "/releases/11.01",
    *GUIDES,
    "/metrics/boot.time",
)
# A finding of the page of a guide has figures of its rule.
SLEEP_PAGES = (
    *(page for page in PAGES[:-1] if page != "/guides/11.01"),
    "/metrics/lpm.deep_sleep.power_rail",
    "/metrics/lpm.mcu_only.resume_kernel",
)
# Mode -> metric and rail -> its mean.
SLEEP = {
    "deep_sleep": {("power_rail", "vdd_core"): 4.3, ("power_rail", "vdda_1v8"): 1.9, ("power_total", ""): 6.2, ("resume_kernel", ""): 137.0},
    "mcu_only": {("power_rail", "vdd_core"): 33.1, ("power_rail", "vdda_1v8"): 11.7, ("power_total", ""): 44.8, ("resume_kernel", ""): 86.0},
}  # fmt: skip
# A parameter's value -> the words by which a line names it.
WORDS: Mapping[str, Mapping[str, str]] = {
    "medium": {"sd": r"\bsd\b", "emmc": r"\bemmc\b", "ospi": r"\bospi\b"},
    "stage": {stage: rf"^\s*{re.escape(stage)}" for _, stage, *_ in recorded_run.BOOT},
    "mode": {"deep_sleep": r"deep.sleep", "mcu_only": r"mcu.only"},
    "rail": {"vdd_core": r"\bvdd_core\b", "vdda_1v8": r"\bvdda_1v8\b"},
}
# Numbers that are no sums: of names, dates and clocks, versions, definitions, and of the axes of drawings.
NAMES = re.compile(
    r"\b11\.0[01]\b|\bu-boot\b|\bsk-[ab]\b|\bam\d+\w*|\bAM\d+x?\b|[\w.]*\d\w*\.\w*[a-z][\w.]*|\b[0-9a-f]{7,64}\b"
    r"|\d{1,2} [A-Z][a-z]+ \d{4}|\d{4}-\d\d-\d\d|\d\d:\d\d(?::\d\d)?|\bboardlab \S+|\b\d+ (?:s|min|h|d) ago|failed in 24 h"
    r"|127\.0\.0\.1:\d+|DDR data rate \d+|vdd_core\W+0\.85|vdda_1v8\W+1\.80"  # of a guide: addresses, memory, nominal voltages
    r"|plan\.sleep_s \d+|\b\d+ s (?:after|before)|'\[[^']*'|\bcycle \d|\b\d+ bytes|host_cpus \d|95 %|\bp95\b|last 60 s|means of 0\.1 s|\bcan\d\b|lab-host-3|\b1[01] values of|sha256"
)
NUMBER = re.compile(r"(?<![\w.])[-+−]?\d+(?:,\d{3})*(?:\.\d+)?(?!\w)")
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
def asleep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of low power, with rails."""
    made = tmp_path_factory.mktemp("asleep")
    (made / "runtime").mkdir(mode=0o700)
    with open_store(str(made / "results.db")) as store:
        for seed, (board, release) in enumerate(RUNS):
            record_sleeps(store, board, release, random.Random(seed))
    return made


def record_sleeps(store: Store, board: str, release: str, dice: random.Random) -> None:
    plan = {"cycles": CYCLES, "modes": [*SLEEP], "wake": "rtc", "sleep_s": 10, "medium": "sd"}
    run = store.begin_run("low_power", "am62xx_sk", board, release, plan=plan, provenance={"virtual": False})
    for mode, means in SLEEP.items():
        for cycle in range(1, CYCLES + 1):
            samples = tuple(
                SampleRecord(
                    f"lpm.{mode}.{metric}",
                    {"mode": mode, "wake": "rtc"} | ({"rail": rail} if rail else {}),
                    dice.gauss(mean, 0.02 * mean),
                    0.001 * mean,
                )
                for (metric, rail), mean in means.items()
            )
            at = dt.datetime(2026, 3, 2, 9, 30, tzinfo=dt.UTC)
            store.record_attempt(
                run.id, AttemptRecord(cycle, 1, {"mode": mode}, "ok", None, None, "", at, 12.0, samples)
            )
    store.finish_run(run.id, "completed")


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with serving(Site(str(folder / "results.db"), runtime=folder / "runtime", folder=folder)) as url:
        yield url


@pytest.fixture(scope="module")
def sleep_address(asleep: Path) -> Iterator[str]:
    with serving(Site(str(asleep / "results.db"), runtime=asleep / "runtime", folder=asleep)) as url:
        yield url


@frozen
class Series:
    """A series of samples, and the words of a line that say it is another's."""

    run: int
    board: str
    metric: str
    params: Mapping[str, str]
    sums: Sums

    def fits(self, line: str) -> bool:
        """False: the line names another board, or another medium, stage, mode or rail."""
        if self.board not in line and re.search(r"\bsk-[ab]\b", line):
            return False
        for name, words in WORDS.items():
            named = {value for value, word in words.items() if re.search(word, line, re.IGNORECASE)}
            if named and name in self.params and self.params[name] not in named:
                return False
        return True

    def follows(self, before: Series) -> bool:
        """True: a later run's."""
        same = (self.board, self.metric, self.params)
        return self.run > before.run and same == (before.board, before.metric, before.params)


def read_series(folder: Path) -> list[Series]:
    """All of the store, from its tables."""
    rows = defaultdict[tuple[int, str, str, str], list[tuple[float, float, int, int]]](list)
    with sqlite3.connect(folder / "results.db") as database:
        for run, board, metric, params, *sample in database.execute(
            "SELECT runs.id, board, metric, params, value, uncertainty, coalesce(log_start, 0), coalesce(log_end, 0) FROM "
            "samples JOIN measurements ON measurements.id = measurement_id JOIN runs ON runs.id = run_id"
        ):
            rows[run, board, metric, params].append(tuple(sample))
    columns = {key: [*zip(*samples, strict=True)] for key, samples in rows.items()}
    return [
        Series(run, board, metric, json.loads(params), Sums(values, bounds, (*starts, *ends)))
        for (run, board, metric, params), (values, bounds, starts, ends) in columns.items()
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
        expected += median_shares(ours)
        for text in numbers:
            number = text.replace(",", "").replace("−", "-")
            half = 0.5 * 10.0 ** -len(number.partition(".")[2])
            if not any(abs(abs(float(number)) - abs(figure)) <= half * 1.0001 for figure in expected):
                wrong.append(f"{text} in {line.strip()[:150]!r}")
    return wrong


def median_shares(series: list[Series]) -> Iterator[float]:
    """The ± of a table of a guide: of each run and metric, and of its media, the median of ± in percent."""
    groups = defaultdict[tuple[object, ...], list[float]](list)
    for one in series:
        share = 100 * one.sums.uncertainty / one.sums.mean
        for part in ("", one.params.get("medium", "")):
            groups[one.run, one.metric, part].append(share)
    return map(statistics.median, groups.values())


def differences(before: Series, now: Series) -> Iterator[float]:
    """Of two runs of one series, with its ±."""
    yield now.sums.mean - before.sums.mean
    yield math.hypot(before.sums.uncertainty, now.sums.uncertainty)


def read_lines(address: str) -> list[str]:
    """The lines of a page, or of a text."""
    answer = requests.get(address, timeout=60)
    assert answer.status_code == 200, answer.text
    if not answer.headers["content-type"].startswith("text/html"):
        return answer.text.replace("\\", "").splitlines()
    parser = Lines()
    parser.feed(answer.text)
    return parser.lines


@pytest.mark.parametrize("page", PAGES)
def test_each_figure_of_a_page_is_a_sum_of_the_store(page: str, address: str, folder: Path) -> None:
    assert unexplained(read_lines(f"{address}{page}"), read_series(folder), read_counts(folder)) == []


@pytest.mark.parametrize("page", SLEEP_PAGES)
def test_each_figure_of_a_page_about_low_power_is_a_sum_of_the_store(
    page: str, sleep_address: str, asleep: Path
) -> None:
    assert unexplained(read_lines(f"{sleep_address}{page}"), read_series(asleep), read_counts(asleep)) == []


@pytest.mark.parametrize("run", range(1, len(RUNS) + 1))
@pytest.mark.parametrize("kind", ["folder", "asleep"])
def test_each_figure_of_a_run_in_the_terminal_is_a_sum_of_the_store(
    run: int, kind: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    place = request.getfixturevalue(kind)
    assert main(["results", "show", str(run), "--db", str(place / "results.db")]) == 0
    series = [one for one in read_series(place) if one.run == run]
    assert unexplained(capsys.readouterr().out.splitlines(), series, read_counts(place)) == []


FAMILIES = {  # metric -> its family, unit, and how much of that its own unit is
    "boot.time": ("boardlab_boot_duration", "seconds", 1.0),
    "boot.power_on_to_prompt": ("boardlab_boot_power_on_to_prompt", "seconds", 1.0),
    "boot.stage": ("boardlab_boot_stage_duration", "seconds", 1.0),
    "power_rail": ("boardlab_rail_power", "watts", 1e-3),
    "power_total": ("boardlab_total_power", "watts", 1e-3),
    "resume_kernel": ("boardlab_resume_latency", "seconds", 1e-3),
}


@pytest.mark.parametrize("kind", ["folder", "asleep"])
def test_each_number_of_the_exporter_is_a_sum_of_the_store(kind: str, request: pytest.FixtureRequest) -> None:
    place = request.getfixturevalue(kind)
    source = ResultsSource(ResultsReader(watch(f"sqlite:///{place}/results.db")))
    scrape = scraped.scrape(b"".join(source.read().pieces()).decode())
    for one in read_series(place):
        labels = {"board": one.board, "release": RUNS[one.run - 1][1], **one.params}
        family, unit, scale = FAMILIES[re.sub(r"^lpm\.\w+\.", "", one.metric)]
        assert scrape.one(f"{family}_{unit}", stat="avg", **labels) == pytest.approx(scale * one.sums.mean)
        assert scrape.one(f"{family}_samples", **labels) == CYCLES
        uncertainty = scrape.one(f"{family}_uncertainty_{unit}", **labels)
        assert uncertainty == pytest.approx(scale * one.sums.uncertainty, rel=1e-5)


SLOWER = {"sk-a": 1.08, "sk-b": 1.05}  # board -> how slow its new image is
QUIET, T_11 = 12, 2.200985  # nights before it; Student's t at 97.5 % with so many degrees of freedom less one
SIZE = re.compile(r"([+-][\d.]+) % ± ([\d.]+) %")
SPAN = re.compile(r"([+-][\d.]+) % to ([+-][\d.]+) %")


def test_each_figure_of_a_mail_is_a_sum_of_the_store(tmp_path: Path) -> None:
    """The change is that of the run against its history's mean; the ± covers the history's own scatter at least."""
    texts: dict[str, str] = {}
    runs: dict[str, list[int]] = {}
    media = ("sd", "emmc")
    with open_store(str(tmp_path / "results.db")) as store:
        for seed, (board, factor) in enumerate(SLOWER.items(), start=1):
            nights = Nights(store, board=board, seed=seed)
            runs[board] = [nights.run(image=f"image {night // 6}", media=media) for night in range(QUIET)]
            for _ in range(2):  # the second one confirms the first
                runs[board].append(nights.run(factor, image="new", media=media))
                judge_run(store, runs[board][-1])
            texts[board] = summary.render(summary.of_run(store, runs[board][-1]), "txt", EvidenceLinks(""))
    means = {
        (one.run, one.params["medium"]): one.sums.mean
        for one in read_series(tmp_path)
        if one.metric == "boot.time" and one.board in SLOWER
    }
    for board, text in texts.items():
        *history, first, last = runs[board]
        changes = {}
        for medium in media:
            before = [means[run, medium] for run in history]
            level = statistics.fmean(before)
            scatter = T_11 * statistics.stdev(before) * math.sqrt(1 + 1 / QUIET) / level
            changes[medium] = (100 * (means[last, medium] / level - 1), 100 * scatter)
        (size,) = SIZE.findall(text)
        (medium,) = re.findall(r"boot\.time \((\w+)\) [+-]", text)
        assert float(size[0]) == pytest.approx(changes[medium][0], abs=0.1)
        assert changes[medium][1] <= float(size[1]) < changes[medium][0]
        (span,) = SPAN.findall(text)
        assert [*map(float, span)] == pytest.approx(sorted(change for change, _ in changes.values()), abs=0.1)
        rest = NAMES.sub(" ", SPAN.sub(" ", SIZE.sub(" ", text)))
        count, more = len(media), len(media) - 1
        assert {*map(int, NUMBER.findall(rest))} == {count, more, first, last}, rest


def test_a_figure_that_is_no_sum_of_its_board_medium_and_stage_is_seen(folder: Path) -> None:
    series, counts = read_series(folder), read_counts(folder)
    (mean,) = (
        one.sums.mean for one in series if (one.run, one.metric, one.params) == (3, "boot.time", {"medium": "sd"})
    )
    assert unexplained([f"sk-a sd {mean:.4f} s"], series, counts) == []
    for line in (f"sk-b sd {mean:.4f} s", f"sk-a emmc {mean:.4f} s", f"sk-a sd {mean + 0.011:.4f} s", "sk-a 99 runs"):
        assert len(unexplained([line], series, counts)) == 1, line
