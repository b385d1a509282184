"""No mutation of a good boot gives a wrong number that does not say so; and a campaign finds those that would."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torture_campaign as campaign
from attrs import evolve
from support.atlength import either
from support.torture_boots import good, recording
from torture_boot import POWER, GoodBoot, events, good_boot
from torture_campaign import Case, Lot, Outcome, judge, lots, rewatcher, run, try_case
from torture_damage import KINDS, mutate

from lab import boards
from lab.benchmarks.boot import START
from lab.benchmarks.boot.starts import Starts
from lab.console import Gap, RecordKind, encode
from lab.console.recording import Recording
from lab.errors import BoardTransientError, ConfigurationError
from lab.metrics import Flag, SampleRecord
from lab.run.rewatch import Rewatcher, RewatchResult, rewatch

pytestmark = pytest.mark.longer

BOARDS = (
    ("am62xx_sk", "sd", 0),
    ("am62axx_sk", "emmc", 0),
    ("am62xx_lp_sk", "ospi", 16_000_000),
    ("am62xxsip_sk", "sd", 1_000_000),
    ("am654x-evm", "emmc", 0),
    ("am43xx-gpevm", "nand", 0),
)
CASES = either(2, 17)  # of each kind on each board: 12 in all, at length about a hundred
SEED = 20261122  # whole campaigns with other seeds: lab console torture


@cache
def watcher_of(*boot: Any) -> Rewatcher:
    return rewatcher(good(*boot))


@pytest.mark.parametrize("kind", KINDS)
def test_no_mutation_makes_a_wrong_number_that_does_not_say_so(kind: str) -> None:
    wrong = []
    for board, medium, latency_ns in BOARDS:
        boot, watcher = good(board, medium, latency_ns), watcher_of(board, medium, latency_ns)
        for seed in range(SEED, SEED + CASES):
            case = try_case(boot, watcher, kind, seed)
            if case.outcome is Outcome.WRONG:
                wrong.append(f"{board} from {medium}: " + " ".join(campaign.case_lines(case)))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("board", "medium", "latency_ns"), BOARDS)
def test_a_good_boot_is_right_and_its_moments_are_the_truth(board: str, medium: str, latency_ns: int) -> None:
    boot = good(board, medium, latency_ns)
    case = judged(boot, boot.truth(boot.tape))
    assert case.outcome is Outcome.RIGHT


def judged(boot: GoodBoot, truth_ns: dict[str, int], *flags: Flag) -> Case:
    """The good boot's own numbers, as if this had been the truth."""
    samples = tuple(with_flags(sample, flags) for sample in boot.samples)
    return judge(boot, Case("drop", 1, "", Outcome.RIGHT), truth_ns, RewatchResult(samples, None, ()))


def with_flags(sample: SampleRecord, flags: tuple[Flag, ...]) -> SampleRecord:
    return evolve(sample, flags=sample.flags | set(flags))


def test_a_number_beyond_its_uncertainty_is_wrong() -> None:
    boot = good()
    truth = boot.truth(boot.tape)
    late = judged(boot, {**truth, "login": truth["login"] + 2_000_000})
    assert late.outcome is Outcome.WRONG
    assert late.wrong is not None
    assert late.wrong.beyond_s == pytest.approx(0.002 - boot.number.uncertainty, abs=1e-5)


def test_a_number_within_its_uncertainty_is_right() -> None:
    boot = good()
    truth = boot.truth(boot.tape)
    assert judged(boot, {**truth, "login": truth["login"] - 200_000}).outcome is Outcome.RIGHT


def test_a_number_of_which_none_is_right_is_wrong() -> None:
    boot = good()
    truth = {name: t_ns for name, t_ns in boot.truth(boot.tape).items() if name != POWER}
    case = judged(boot, truth)
    assert case.wrong is not None
    assert case.wrong.number == "boot.power_on_to_prompt"
    assert case.wrong.truth_s is None


@pytest.mark.parametrize("flag", [Flag.CLOCK_DISAGREES, Flag.CONSOLE_OVERRUN, Flag.PROMPT_REPEATED])
def test_a_flag_that_doubts_a_number_makes_up_for_its_error(flag: Flag) -> None:
    assert judged(good(), {}, flag).outcome is Outcome.FLAGGED


@pytest.mark.parametrize("flag", [Flag.SIMULATED, Flag.MEDIUM_UNVERIFIED])
def test_a_flag_about_something_else_makes_up_for_nothing(flag: Flag) -> None:
    assert judged(good(), {}, flag).outcome is Outcome.WRONG


def test_a_boot_that_is_refused_is_not_wrong() -> None:
    boot = good()
    refused = RewatchResult((), BoardTransientError("it reset", failure="reset"), ())
    case = judge(boot, Case("drop", 1, "", Outcome.RIGHT), {}, refused)
    assert (case.outcome, case.failure) == (Outcome.REFUSED, "reset")


def test_recognition_that_breaks_down_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: object) -> RewatchResult:
        raise IndexError("list index out of range")

    monkeypatch.setattr(Rewatcher, "rewatch", broken)
    case = try_case(good(), rewatcher(good()), "drop", 1)
    assert case.outcome is Outcome.WRONG
    assert "IndexError" in case.message


def test_a_pattern_that_takes_any_text_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here "Starting kernel ..." may stand in any line and come at any time, and nothing asks for a second witness."""
    monkeypatch.setattr(campaign, "_cross_checked", lambda _boot, _mutated, result, _rng: result)
    monkeypatch.setattr(Starts, "is_foreign", lambda *_: False)
    monkeypatch.setattr(Starts, "moment", lambda *_, **__: None)
    loose = [evolve(p, line_start=False, times=0) if p.name == START else p for p in boards.load("am62xx_sk").moments]
    boot = good_boot(recording(), evolve(boards.load("am62xx_sk"), moments=loose), "sd")
    cases = run(boot, [Lot("insert", range(10, either(14, 101)))], processes=1)  # the case 12 inserts that text
    wrong = {case.wrong.number for case in cases if case.wrong is not None}
    assert "boot.time" in wrong


def test_processes_share_the_work_and_keep_its_order() -> None:
    todo = [Lot("cut", range(5, 8)), Lot("drop", range(8, 9)), Lot("cut", range(9, 11))]
    names = ["cut:5", "cut:6", "cut:7", "drop:8", "cut:9", "cut:10"]
    assert [case.name for case in run(good(), todo, processes=2)] == names


def test_a_lot_has_at_most_fifty_cases_of_one_kind() -> None:
    todo = lots(["drop", "cut"], 60, 5)
    assert todo == [
        Lot("drop", range(5, 55)),
        Lot("drop", range(55, 65)),
        Lot("cut", range(5, 55)),
        Lot("cut", range(55, 65)),
    ]


def test_a_boot_with_a_gap_or_without_bytes_is_no_good_boot() -> None:
    whole = recording()
    found = list(whole.events())
    for broken in ([], [*found[:50], Gap(found[50].t_ns, found[50].position, RecordKind.LOST, 5), *found[50:]]):
        with pytest.raises(ConfigurationError, match="bytes are missing"):
            good_boot(Recording.decode(*encode(whole.meta, broken)), boards.load("am62xx_sk"))


def test_the_medium_is_the_one_that_the_boot_names() -> None:
    assert good_boot(recording(medium="emmc"), boards.load("am62xx_sk")).medium == "emmc"


def test_another_medium_than_the_boots_own_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="wrong medium"):
        good_boot(recording(), boards.load("am62xx_sk"), "emmc")
    with pytest.raises(ConfigurationError, match="no medium 'nand'"):
        good_boot(recording(), boards.load("am62xx_sk"), "nand")


def test_watching_a_recorded_boot_again_gives_its_number() -> None:
    boot = good()
    result = rewatch(events(boot.tape), boot.board, "sd", boot.power, boot.timing)
    assert result.error is None
    assert {moment.name for moment in result.moments} >= {START, "login"}


def test_a_prompt_at_which_nobody_answers_is_flagged_as_in_a_live_run() -> None:
    boot = good()
    result = rewatch(events(boot.tape), boot.board, "sd", boot.power, boot.timing)
    assert all(Flag.PROMPT_REPEATED in sample.flags for sample in result.samples)
    assert not any(Flag.PROMPT_REPEATED in sample.flags for sample in boot.samples)


def test_silence_refuses_a_recorded_boot_as_it_would_a_live_one() -> None:
    boot = good()
    result = rewatch(events(boot.tape.part(0, boot.at["init"])), boot.board, "sd", boot.power, boot.timing)
    assert result.error is not None
    assert result.error.failure == "hang_before_login"


@pytest.mark.parametrize("kind", KINDS)
def test_a_boot_that_is_taken_up_where_it_parts_from_the_known_one_ends_as_if_watched_from_the_start(
    kind: str,
) -> None:
    boot, watcher = good(), watcher_of()
    for seed in range(either(2, 20)):
        found = mutate(boot, kind, seed).events
        quick, slow = watcher.rewatch(found), rewatch(found, boot.board, boot.medium, boot.power, boot.timing)
        assert (quick.samples, quick.moments, str(quick.error)) == (slow.samples, slow.moments, str(slow.error))
