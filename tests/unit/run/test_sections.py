"""Sections in cycles and rows: each repetition is a cycle, a row that fails costs that row, and a killed run goes on exactly."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from attrs import define, evolve, field
from support.facts import missing_facts
from support.scripted_host import ScriptedHost, section_run, sessions

from lab.benchmarks.output import PrintedNumber, read, rule
from lab.benchmarks.section import Bench, ParsedReading, Row, Rows, Section, whole
from lab.benchmarks.sections import ALL
from lab.errors import BoardlabError, BoardStableError, BoardTransientError, LabTransientError
from lab.guide.write import stored_release
from lab.metrics import Metric, summarise, uncertainty
from lab.report import page as report
from lab.results import Attempt, Store, open_store
from lab.results.formatting import console_log, numbers_and_failures
from lab.results.listing import attempts_of, overview
from lab.run.rows import describe_missing
from lab.run.sections import KIND, SectionRun
from lab.run.session import CommandResult

RATES = ("8000", "44100", "96000")


def _read(output: bytes, rate: str) -> list[ParsedReading]:
    return read(output, "play", [rule(r"^(\d+) bits$", PrintedNumber("audio.throughput", {"rate_hz": rate}))])


def _rows(bench: Bench) -> Rows:
    bench.run("prepare")
    try:
        for rate in RATES:
            yield Row(partial(bench.read, partial(_read, rate=rate), f"play {rate}"), {"rate_hz": rate})
    finally:
        bench.run("mute")


SOUND = Section(
    name="sound",
    title="Sound",
    chapter="ALSA SoC Audio Driver",
    metrics=("audio.throughput",),
    rows=_rows,
    restore=lambda bench: bench.run("tidy up") and None,
    command="play 8000",
)


class KilledError(BaseException):
    """The process ends here, as if by a signal."""


@define
class SoundCard(ScriptedHost):
    """Plays each rate a little faster each time, refuses some rates, and hangs or is killed when it is told to.

    Attributes:
        refused: rates that it refuses at each of these tries, from 1; none: always.
    """

    refused: dict[str, set[int]] = field(factory=dict)
    raises: dict[str, BaseException] = field(factory=dict)
    kill_at: int = 0
    played: list[str] = field(factory=list)

    def run(self, command: str, timeout_s: float) -> CommandResult:
        name, _, rate = command.partition(" ")
        if name != "play":
            return super().run(command, timeout_s)
        self.played.append(rate)
        self.ran.append(command)
        if self.kill_at == len(self.played):
            raise KilledError
        if rate in self.raises:
            raise self.raises[rate]
        count = self.played.count(rate)
        if rate in self.refused and (not self.refused[rate] or count in self.refused[rate]):
            return CommandResult(["sample rate not available"], 1)
        return CommandResult([f"{int(rate) * 32 + count} bits"], 0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'results.db'}") as opened:
        yield opened


@pytest.fixture
def begin(store: Store) -> Callable[..., SectionRun]:
    def run(host: ScriptedHost, *, repeats: int = 3, retries: int = 2, resume: int = 0) -> SectionRun:
        plan = {"sections": ["sound"], "destructive": False, "repeats": {"sound": repeats}}
        its = (
            store.run(resume) if resume else store.begin_run(KIND, "am62xx_sk", "sk-1", "1", plan=plan, provenance={})
        )
        return section_run(store, its, sessions(host), write=said.append, retries=retries)

    said: list[str] = []
    return run


def counts(attempts: list[Attempt]) -> dict[tuple[str, int], list[str]]:
    """Row (empty: the cycle) and cycle -> the outcomes of its attempts."""
    found: dict[tuple[str, int], list[str]] = {}
    for attempt in attempts:
        found.setdefault((attempt.params.get("rate_hz", ""), attempt.cycle), []).append(attempt.outcome)
    return found


def test_each_repetition_is_a_cycle_and_the_spread_between_them_is_in_the_uncertainty(
    store: Store, begin: Callable[..., SectionRun]
) -> None:
    run = begin(SoundCard())
    run.measure(SOUND)
    assert run.pending("sound") == []
    assert counts(store.attempts(run.run.id)) == {(rate, c): ["ok"] for rate in ("", *RATES) for c in (1, 2, 3)}
    for measurement in store.measurements(run.run.id):
        base = int(measurement.params["rate_hz"]) * 32
        assert [(s.cycle, s.value) for s in measurement.samples] == [(c, base + c) for c in (1, 2, 3)]
        summary = summarise(measurement.samples)
        spread = uncertainty.student_t95(2) * 1.0 / 3**0.5
        assert (summary.n, summary.std) == (3, 1.0)
        assert summary.uncertainty == pytest.approx(uncertainty.combine([spread, measurement.samples[0].uncertainty]))


def test_results_report_and_guide_have_the_number_of_samples_and_the_uncertainty_of_their_spread(
    store: Store, begin: Callable[..., SectionRun]
) -> None:
    run = begin(SoundCard(refused={"44100": {3}}), retries=0)
    with pytest.raises(BoardlabError):
        run.measure(SOUND)
    shown = overview(store, run.run.id)
    (low,) = [line for line in numbers_and_failures(shown) if line.strip().startswith("8000 ")]
    assert not missing_facts(low, "256002", "min 256001", "max 256003")
    assert re.search(r" 3/3 +3 ", low), "± 2.5 of the three values, and the program prints whole numbers"
    (lost,) = [line for line in numbers_and_failures(shown) if line.strip().startswith("44100 ")]
    assert " 2/3 " in lost, "one of three cycles has no sample"
    page = report.render(shown, store.artifacts)
    assert re.search(r">3/3</td><td[^>]*>3</td>", page)
    assert ">2/3</td>" in page
    entries = {entry.params["rate_hz"]: entry for entry in stored_release.collect(store, "1", []).entries}
    assert re.fullmatch(r"256002(\.00)? \(min 256001(\.00)?, max 256003(\.00)?\)", entries["8000"].text)
    assert entries["8000"].evidence.samples == 3
    assert entries["8000"].evidence.uncertainty == pytest.approx(2.534, abs=1e-3)
    assert "3 samples from" in entries["8000"].evidence.source


def test_a_run_whose_plan_does_not_say_how_often_measures_once(store: Store) -> None:
    begun = store.begin_run(KIND, "am62xx_sk", "sk-1", "1", plan={"sections": ["sound"]}, provenance={})
    host = SoundCard()
    section_run(store, begun, sessions(host)).measure(SOUND)
    assert host.played == [*RATES]


def test_every_log_is_that_of_its_own_row_and_nothing_that_was_printed_is_lost(
    store: Store, begin: Callable[..., SectionRun]
) -> None:
    run = begin(SoundCard(), repeats=1)
    run.measure(SOUND)
    attempts = store.attempts(run.run.id)
    logs = [console_log(store.artifacts, attempt).decode() for attempt in attempts]
    assert [log.count("board$ play") for log in logs] == [1, 1, 1, 0]
    assert "board$ prepare" in logs[0]
    assert logs[-1].index("board$ mute") < logs[-1].index("board$ tidy up")
    for attempt, log in zip(attempts[:-1], logs, strict=False):
        (sample,) = attempt.samples
        assert log[sample.log_start : sample.log_end] == f"{sample.value:.0f} bits\n"


def test_a_row_that_the_board_refuses_costs_that_row_and_no_other(
    store: Store, begin: Callable[..., SectionRun]
) -> None:
    host = SoundCard(refused={"44100": set()})
    run = begin(host)
    with pytest.raises(BoardlabError) as told:
        run.measure(SOUND)
    for words in ("1 of 3 rows", "rate_hz=44100 (cycle 1, 2, 3)", "sample rate not available", "--lab-resume"):
        assert words in str(told.value)
    expected: dict[tuple[str, int], list[str]] = {(r, c): ["ok"] for r in ("8000", "96000") for c in (1, 2, 3)}
    refused = told.value.failure
    assert (refused, told.value.fault) == ("command_failed", "board"), "it said so by its status"
    expected |= {("44100", 1): [refused] * 3, ("44100", 2): [refused], ("44100", 3): [refused]}
    attempts = store.attempts(run.run.id)
    assert counts(attempts) == expected
    assert [a.number for a in attempts if a.params.get("rate_hz") == "44100" and a.cycle == 1] == [1, 2, 3]
    assert {m.params["rate_hz"]: len(m.samples) for m in store.measurements(run.run.id)} == {"8000": 3, "96000": 3}
    assert run.pending("sound") == [1, 2, 3], "a cycle that lacks a row is not done"
    (line,) = describe_missing(attempts)
    assert not missing_facts(line, "sound", "rate_hz=44100", "cycle 1, 2, 3")
    assert host.ran[-1] == "tidy up"


def test_a_row_that_fails_once_is_tried_again_and_then_the_cycle_is_whole(
    store: Store, begin: Callable[..., SectionRun]
) -> None:
    run = begin(SoundCard(refused={"44100": {2}}))
    run.measure(SOUND)
    attempts = store.attempts(run.run.id)
    (failed,) = [attempt for attempt in attempts if not attempt.ok]
    assert (failed.params, failed.cycle, failed.number) == ({"section": "sound", "rate_hz": "44100"}, 2, 1)
    assert run.pending("sound") == []
    assert list(describe_missing(attempts)) == []
    (number,) = [m for m in store.measurements(run.run.id) if m.params["rate_hz"] == "44100"]
    assert [a.number for a in attempts_of(attempts, number) if a.cycle == 2] == [1, 2]


def test_the_resumed_run_measures_the_rows_that_are_missing_and_no_other(
    store: Store, begin: Callable[..., SectionRun]
) -> None:
    run = begin(SoundCard(refused={"44100": set()}))
    with pytest.raises(BoardlabError):
        run.measure(SOUND)
    mended = SoundCard()
    again = begin(mended, resume=run.run.id)
    again.measure(SOUND)
    assert mended.played == ["44100"] * 3
    attempts = store.attempts(run.run.id)
    assert [a.number for a in attempts if a.params.get("rate_hz") == "44100" and a.cycle == 1] == [1, 2, 3, 4]
    assert {m.params["rate_hz"]: len(m.samples) for m in store.measurements(run.run.id)} == dict.fromkeys(RATES, 3)
    assert again.pending("sound") == []


@pytest.mark.parametrize("killed", range(1, 10))
def test_a_run_that_is_killed_at_any_row_goes_on_with_exact_counts(
    store: Store, begin: Callable[..., SectionRun], killed: int
) -> None:
    run = begin(SoundCard(kill_at=killed))
    with pytest.raises(KilledError):
        run.measure(SOUND)
    rest = SoundCard()
    again = begin(rest, resume=run.run.id)
    again.measure(SOUND)
    assert len(rest.played) == 9 - (killed - 1)
    assert counts(store.attempts(run.run.id)) == {(rate, c): ["ok"] for rate in ("", *RATES) for c in (1, 2, 3)}
    assert {m.params["rate_hz"]: len(m.samples) for m in store.measurements(run.run.id)} == dict.fromkeys(RATES, 3)


def test_a_row_that_hangs_the_board_is_left_out_of_further_cycles_and_a_second_one_ends_the_section(
    store: Store, begin: Callable[..., SectionRun]
) -> None:
    hang = BoardTransientError("did not end", failure="command_timeout")
    host = SoundCard(raises={"44100": hang})
    run = begin(host, retries=0)
    with pytest.raises(BoardlabError, match=r"44100.*1, 2, 3"):
        run.measure(SOUND)
    assert [host.played.count(rate) for rate in RATES] == [3, 1, 3]
    worse = SoundCard(raises={"8000": hang, "44100": hang})
    with pytest.raises(BoardTransientError, match="did not end"):
        begin(worse, retries=0).measure(SOUND)
    assert worse.played == ["8000", "44100"]


@pytest.mark.parametrize(
    "error",
    [
        LabTransientError("the tester is gone", failure="tester_command_failed"),
        BoardStableError("the medium is worn out", failure="restore_failed"),
    ],
    ids=["of the lab", "stable"],
)
def test_what_is_not_about_the_row_ends_the_section(
    store: Store, begin: Callable[..., SectionRun], error: BoardlabError
) -> None:
    host = SoundCard(raises={"44100": error})
    run = begin(host)
    with pytest.raises(type(error), match=str(error)):
        run.measure(SOUND)
    assert "96000" not in host.played
    assert host.played.count("8000") == 1, "what is there is not measured again"
    assert host.played.count("44100") == (3 if error.transient else 1)


def test_a_section_of_which_no_row_goes_well_is_not_repeated(begin: Callable[..., SectionRun]) -> None:
    host = SoundCard(refused={rate: set() for rate in RATES})
    with pytest.raises(BoardlabError, match="3 of 3 rows"):
        begin(host, retries=0).measure(SOUND)
    assert host.played == [*RATES]


def test_what_fails_before_the_first_row_is_an_attempt_at_the_section(
    store: Store, begin: Callable[..., SectionRun]
) -> None:
    run = begin(SoundCard({"prepare": [("no space", 1), ""]}), repeats=1)
    run.measure(SOUND)
    told = [(dict(a.params), a.number, a.outcome) for a in store.attempts(run.run.id)]
    assert told[0] == ({"section": "sound"}, 1, "command_failed")
    assert told[-1] == ({"section": "sound"}, 2, "ok")


def test_a_section_that_has_nothing_to_measure_says_so(begin: Callable[..., SectionRun]) -> None:
    def none(_bench: Bench) -> Rows:
        yield from ()

    with pytest.raises(BoardlabError, match="measured nothing"):
        begin(SoundCard()).measure(evolve(SOUND, rows=none))


def test_the_samples_of_a_section_without_rows_stand_in_the_attempt_of_its_cycle(
    store: Store, begin: Callable[..., SectionRun]
) -> None:
    def measure(bench: Bench) -> Iterator[ParsedReading]:
        yield from bench.read(partial(_read, rate="8000"), "play 8000")

    run = begin(SoundCard())
    run.measure(evolve(SOUND, rows=whole(measure)))
    attempts = store.attempts(run.run.id)
    assert [(dict(a.params), a.cycle, len(a.samples)) for a in attempts] == [
        ({"section": "sound"}, cycle, 1) for cycle in (1, 2, 3)
    ]


def test_a_section_is_measured_three_times_or_says_why_not() -> None:
    assert {section.repeats for section in ALL} == {1, 3}
    for section in ALL:
        assert section.repeats == (1 if section.once else 3)
        assert not section.once or len(section.once) > 30, section.name


def test_the_rows_of_every_section_are_told_apart(tmp_path: Path) -> None:
    """Two rows with the same parameters would be one: the second would count as measured."""
    from support.section_bench import section_bench  # noqa: PLC0415 - only this test needs a simulated board

    def check(section: Section, session: Any) -> None:
        rows = section.rows(session)
        keys = [tuple(sorted(row.params.items())) for row in rows]
        assert len(keys) == len(set(keys)), section.name
        assert keys == [()] or all(keys), section.name

    with section_bench(tmp_path) as bench:
        for section in (s for s in ALL if s.fits(bench.strategy.type) and not s.overwrites):
            check(section, bench.session(section))


LOUDNESS = Metric("example.loudness", "dB", "higher", "Level of the sound.", 0.5, "a package of somebody else")


def _loud(output: bytes) -> list[ParsedReading]:
    return read(output, "listen", [rule(r"^([\d.]+) dB$", PrintedNumber(LOUDNESS.name))])


LOUD = Section(
    name="sound",
    title="Loudness",
    chapter="ALSA SoC Audio Driver",
    metrics=(LOUDNESS.name,),
    rows=whole(lambda bench: iter(bench.read(_loud, "listen"))),
    command="listen",
    declares=(LOUDNESS,),
)


class Listener(ScriptedHost):
    def run(self, command: str, timeout_s: float) -> CommandResult:
        return CommandResult(["71.5 dB"], 0) if command == "listen" else super().run(command, timeout_s)


def test_a_section_of_another_package_records_its_own_metric(store: Store, begin: Callable[..., SectionRun]) -> None:
    run = begin(Listener(), repeats=2)
    run.measure(LOUD)
    (measured,) = store.measurements(run.run.id)
    assert (measured.metric.name, measured.metric.unit, measured.metric.resolution) == (LOUDNESS.name, "dB", 0.5)
    assert [(sample.value, sample.uncertainty) for sample in measured.samples] == [(71.5, 0.25)] * 2
