"""A run of sections: what is kept, what is put back, what is tried again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from support.scripted_host import Answer, ScriptedHost, SilentConsole, section_run, sessions

from lab.benchmarks import needs
from lab.benchmarks.lmbench import bw_pipe
from lab.benchmarks.section import Bench, ParsedReading, Section, whole
from lab.errors import BoardlabError, BoardTransientError, ConfigurationError, LabTransientError, TestStableError
from lab.metrics import Flag
from lab.results import Store, open_store
from lab.results.formatting import console_log
from lab.run.progress import Eta
from lab.run.sections import KIND, SectionRun, durations, facts_before
from lab.run.session import BoardSession

PIPE = "Pipe bandwidth: 2384.03 MB/sec"


def _measure(bench: Bench) -> Iterator[ParsedReading]:
    bench.run("prepare")
    yield from bench.read(bw_pipe, "bw_pipe")


SECTION = Section(
    name="pipe",
    title="Pipe",
    chapter="System Benchmarks",
    metrics=("lmbench.bw_pipe",),
    rows=whole(_measure),
    restore=lambda bench: bench.run("tidy up") and None,
    command="bw_pipe",
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'results.db'}") as opened:
        yield opened


@pytest.fixture
def begin(store: Store) -> Callable[..., SectionRun]:
    def run(host: ScriptedHost, *, simulated: bool = False, **options: Any) -> SectionRun:
        provenance = {"virtual": simulated}
        begun = store.begin_run(KIND, "am62xx_sk", "sk-1", "11.01", plan={}, provenance=provenance)
        return section_run(store, begun, sessions(host), **options)

    return run


def test_a_section_becomes_an_attempt_with_its_samples_and_everything_that_was_printed(
    store: Store, begin: Callable[..., SectionRun]
) -> None:
    run = begin(ScriptedHost({"bw_pipe": f"hello\n{PIPE}\n"}))
    run.measure(SECTION)
    (attempt,) = store.attempts(run.run.id)
    (sample,) = attempt.samples
    assert (attempt.params, sample.metric, sample.value) == ({"section": "pipe"}, "lmbench.bw_pipe", 2384.03)
    assert sample.uncertainty == 0.005
    log = console_log(store.artifacts, attempt)
    assert log[sample.log_start : sample.log_end].decode() == f"{PIPE}\n"
    assert b"board$ prepare\n# status 0" in log
    assert b"board$ tidy up" in log
    assert run.pending("pipe") == []


@pytest.mark.parametrize("retries", [0, 1])
def test_a_board_that_does_not_come_up_for_the_preflight_is_tried_again_within_the_bound(
    store: Store, begin: Callable[..., SectionRun], retries: int
) -> None:
    run = begin(ScriptedHost({"bw_pipe": PIPE}), retries=retries)
    boots = [BoardTransientError("it hangs", failure="hang_kernel"), None]
    up = run.session

    def session(section: Section) -> BoardSession:
        error = boots.pop(0)
        if error is not None:
            raise error
        return up(section)

    run.session = session
    if retries:
        assert run.preflight(SECTION).failed == {}
    else:
        with pytest.raises(BoardTransientError, match="it hangs"):
            run.preflight(SECTION)
    (failed,) = store.attempts(run.run.id)
    assert (failed.outcome, failed.cycle, failed.params) == ("hang_kernel", 1, {"section": "pipe"})


def test_a_preflight_that_the_environment_makes_impossible_is_not_tried_again(
    store: Store, begin: Callable[..., SectionRun]
) -> None:
    run = begin(ScriptedHost(), retries=3)
    with pytest.raises(ConfigurationError):
        run.preflight(evolve(SECTION, needs=(needs.tool_of_tester("iperf3"),)))
    assert len(store.attempts(run.run.id)) == 1


def test_a_real_boards_samples_carry_no_mark_and_a_simulated_ones_always_do(
    store: Store, begin: Callable[..., SectionRun]
) -> None:
    for simulated in (False, True):
        run = begin(ScriptedHost({"bw_pipe": PIPE}), simulated=simulated)
        run.measure(SECTION)
        (attempt,) = store.attempts(run.run.id)
        assert (Flag.SIMULATED in attempt.samples[0].flags) is simulated
        assert attempt.details["simulated"] is simulated


FAILURES: list[tuple[dict[str, Answer | list[Answer]], str, str]] = [
    ({"prepare": ("no space", 1)}, "command_failed", "`prepare` failed on the board with status 1: 'no space'"),
    ({"bw_pipe": "Pipe: broken"}, "unreadable_output", "the first line that is not understood is 'Pipe: broken'"),
    ({"bw_pipe": BoardTransientError("gone", failure="command_timeout")}, "command_timeout", "gone"),
]


@pytest.mark.parametrize(("answers", "outcome", "says"), FAILURES, ids=[failure for _, failure, _ in FAILURES])
def test_a_failure_is_kept_with_its_output_has_no_samples_and_the_board_is_put_back(
    store: Store,
    begin: Callable[..., SectionRun],
    answers: dict[str, Answer | list[Answer]],
    outcome: str,
    says: str,
) -> None:
    host = ScriptedHost(answers)
    run = begin(host)
    with pytest.raises(BoardlabError):
        run.measure(SECTION)
    (attempt,) = store.attempts(run.run.id)
    assert (attempt.outcome, attempt.samples) == (outcome, ())
    assert says in attempt.message
    assert console_log(store.artifacts, attempt)
    assert host.ran[-1] == "tidy up"
    assert run.pending("pipe") == [1]


def test_a_transient_failure_is_tried_again_and_never_becomes_a_sample(
    store: Store, begin: Callable[..., SectionRun]
) -> None:
    run = begin(ScriptedHost({"bw_pipe": ["garbage", PIPE]}), retries=1)
    run.measure(SECTION)
    assert [(a.number, a.outcome, len(a.samples)) for a in store.attempts(run.run.id)] == [
        (1, "unreadable_output", 0),
        (2, "ok", 1),
    ]


def test_where_putting_back_fails_too_the_first_error_is_told_and_the_second_added(
    begin: Callable[..., SectionRun],
) -> None:
    run = begin(ScriptedHost({"bw_pipe": "nothing", "tidy up": ("stuck", 1)}))
    with pytest.raises(BoardlabError, match=r"understood is 'nothing'") as caught:
        run.measure(SECTION)
    assert any("undoing its changes to the board failed" in note for note in caught.value.__notes__)


def test_a_section_may_only_give_the_metrics_that_it_declares(begin: Callable[..., SectionRun]) -> None:
    with pytest.raises(TestStableError, match=r"pipe.*stream.bandwidth"):
        begin(ScriptedHost({"bw_pipe": PIPE})).measure(evolve(SECTION, metrics=("stream.bandwidth",)))


def test_a_declared_metric_that_is_not_in_the_store_is_missing(begin: Callable[..., SectionRun]) -> None:
    run = begin(ScriptedHost({"bw_pipe": PIPE}))
    assert run.missing(SECTION) == ["lmbench.bw_pipe"]
    run.measure(SECTION)
    assert run.missing(SECTION) == []
    assert run.missing(evolve(SECTION, metrics=(*SECTION.metrics, "stream.bandwidth"))) == ["stream.bandwidth"]
    assert run.missing(evolve(SECTION, name="another")) == ["lmbench.bw_pipe"], (
        "another section's samples do not count"
    )
    assert begin(ScriptedHost()).missing(SECTION) == ["lmbench.bw_pipe"], "nor do another run's"


def test_the_samples_of_a_failed_attempt_do_not_count(begin: Callable[..., SectionRun]) -> None:
    run = begin(ScriptedHost({"bw_pipe": "Pipe: broken"}))
    with pytest.raises(BoardlabError):
        run.measure(SECTION)
    assert run.missing(SECTION) == ["lmbench.bw_pipe"]


def test_durations_and_the_setup_of_the_run_before_come_from_the_store(
    store: Store, begin: Callable[..., SectionRun]
) -> None:
    first = begin(ScriptedHost({"bw_pipe": PIPE}))
    first.setup.facts["card mmcblk1"] = "SR32G"
    first.measure(SECTION)
    assert set(durations(store, "am62xx_sk")) == {"pipe"}
    assert durations(store, "am43xx-gpevm") == {}
    second = begin(ScriptedHost())
    assert facts_before(store, second.run) == {"card mmcblk1": "SR32G"}
    assert facts_before(store, first.run) == {}


def test_the_eta_is_what_the_sections_that_are_left_took_the_last_time() -> None:
    eta = Eta({"openssl": 260.0, "lmbench": 3600.0})
    assert str(eta) == "1:04:20"
    eta.done("lmbench")
    assert str(eta) == "0:04:20"


def test_a_section_keeps_what_the_board_printed_of_its_software(
    store: Store, begin: Callable[..., SectionRun]
) -> None:
    run = begin(ScriptedHost({"bw_pipe": PIPE}), software={"kernel": "Linux version 6.12.1"})
    run.measure(SECTION)
    (attempt,) = store.attempts(run.run.id)
    assert attempt.details["software"] == {"kernel": "Linux version 6.12.1"}


def test_a_failure_is_looked_at_again_before_it_is_kept(store: Store, begin: Callable[..., SectionRun]) -> None:
    class Shared(SilentConsole):
        def blame_sharing(self, error: BoardlabError) -> BoardlabError:
            return LabTransientError(f"somebody else reads: {error.failure}", failure="console_shared")

    run = begin(ScriptedHost({"bw_pipe": "Pipe: broken"}), console=Shared())
    with pytest.raises(LabTransientError):
        run.measure(SECTION)
    (attempt,) = store.attempts(run.run.id)
    assert (attempt.outcome, attempt.fault, attempt.message) == (
        "console_shared",
        "lab",
        "somebody else reads: unreadable_output",
    )
