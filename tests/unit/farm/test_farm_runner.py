"""A job whose pytest is played: how it ends, whatever happens to its pytest, to the store and to whoever wants the board."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attrs import define, evolve, field
from support.facts import missing_facts
from support.recorded_run import Failed, failed, record

from lab.errors import ConfigurationError, LabStableError
from lab.farm import rerun, runner
from lab.farm import runner as runners
from lab.farm.runner import BROKEN, BUSY, INTERRUPTED, UNCONFIRMED, WORSE, Runner, RunnerPaths, report_again
from lab.host import process
from lab.host.clock import utc_now
from lab.jobs.queue import GAVE_WAY, TIMERS, JobQueue, has_failed, note_tests
from lab.jobs.records import AWAY_VARIABLE, Job, Order
from lab.judge.records import NewVerdict
from lab.judge.store import write_verdicts
from lab.results import Store, open_store
from lab.results.records import RunStatus


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path / "run"))
    with open_store(str(tmp_path / "results.db")) as store:
        yield store


def timers(store: Store) -> JobQueue:
    return JobQueue(store, process.identity(), process.has_died, person="timer", priority=TIMERS)


def order(folder: Path) -> Order:
    return Order("am62xx_sk", "one", ("boot",), str(folder / "one.yaml"), "", 1, {})


def quick(book: JobQueue, folder: Path, said: list[str]) -> Runner:
    return Runner(book, RunnerPaths(folder, folder, None), said.append, heartbeat_s=0.05)


@pytest.mark.parametrize(
    ("command", "ends", "state"),
    [
        ("kill -KILL $$", BUSY, "interrupted"),
        ("exit 75", BUSY, "interrupted"),
        ("exit 69", BROKEN, "failed"),
        ("exit 1", 1, "failed"),
        ("exit 0", 0, "completed"),
    ],
)
def test_a_killed_pytest_is_no_failure_of_the_board(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, ends: int, state: str
) -> None:
    monkeypatch.setattr(runner, "command", lambda *_args: ["sh", "-c", command])
    said: list[str] = []
    order = Order("am62xx_sk", "one", ("boot",), str(tmp_path / "one.yaml"), "", 1, {})
    with open_store(str(tmp_path / "results.db")) as store:
        book = JobQueue(store, process.identity(), process.has_died, person="lena")
        job = book.enqueue(order)
        assert Runner(book, RunnerPaths(tmp_path, tmp_path, None), said.append).run(job, 0) == ends
        assert book.job(job.id).state == state
        assert (book.unfinished(order) is not None) == (state == "interrupted")
    assert any("SIGKILL" in line for line in said) == ("KILL" in command)


def test_a_job_that_was_cancelled_as_its_pytest_was_killed_is_not_asked_to_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    book = timers(store)
    job = book.enqueue(order(tmp_path))

    def killed(_runner: Runner, _process: object, _job: Job) -> int:
        book.cancel(job.id, "max")
        return -9

    monkeypatch.setattr(runner, "command", lambda *_args: ["true"])
    monkeypatch.setattr(Runner, "_wait", killed)
    assert quick(book, tmp_path, []).run(job, 0) == INTERRUPTED
    assert book.job(job.id).state == "cancelled"


@pytest.mark.parametrize(("wait_s", "away"), [(0.0, "0"), (86_400.0, f"{runners.AWAY_S:g}")])
def test_a_pytest_waits_for_a_host_that_is_away_as_long_as_its_job_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store, wait_s: float, away: str
) -> None:
    monkeypatch.setattr(runner, "command", lambda *_args: ["sh", "-c", f'test "${AWAY_VARIABLE}" = {away}'])
    book = timers(store)
    assert quick(book, tmp_path, []).run(book.enqueue(order(tmp_path)), wait_s) == 0


def test_a_pytest_that_is_stopped_does_not_keep_the_board_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    monkeypatch.setattr(runner, "command", lambda *_args: ["sh", "-c", "kill -STOP $$; exit 0"])
    book, said = timers(store), list[str]()
    job = book.enqueue(order(tmp_path))
    assert quick(book, tmp_path, said).run(job, 0) == 0
    assert book.job(job.id).state == "completed"
    assert any("was stopped by a signal" in line for line in said)


def test_an_environment_that_is_being_saved_ends_no_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    looked = tmp_path / "looked"

    def half_saved(_queue: JobQueue, job: Job) -> str:
        if job.state == "queued":
            return ""
        looked.touch()
        raise ConfigurationError("one.yaml: it ends early")

    monkeypatch.setattr(runners, "other_user", half_saved)
    monkeypatch.setattr(
        runner, "command", lambda *_args: ["sh", "-c", f"while [ ! -e {looked} ]; do sleep 0.05; done; sleep 0.2"]
    )
    book = timers(store)
    job = book.enqueue(order(tmp_path))
    assert quick(book, tmp_path, []).run(job, 0) == 0
    assert book.job(job.id).state == "completed"


@pytest.mark.parametrize("heeds", [True, False])
def test_no_pytest_outlives_its_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store, *, heeds: bool
) -> None:
    """Whatever ended it, and also where pytest does not end when it is asked to."""
    children: list[subprocess.Popen[bytes]] = []
    ready = tmp_path / "ready"

    def broken(runner: Runner, _job: object) -> None:
        if ready.exists():
            children.append(runner._child)  # type: ignore[arg-type]
            raise RuntimeError

    monkeypatch.setattr(Runner, "_update_claimant", broken)
    monkeypatch.setattr(runners, "STOP_S", 60.0 if heeds else 0.1)
    trap = "trap 'exit 0' INT" if heeds else "trap '' INT"
    monkeypatch.setattr(
        runner, "command", lambda *_args: ["bash", "-c", f"{trap}; touch {ready}; while :; do sleep 0.05; done"]
    )
    book = timers(store)
    with pytest.raises(RuntimeError):
        quick(book, tmp_path, []).run(book.enqueue(order(tmp_path)), 0)
    assert [child.returncode for child in children] == [0 if heeds else -9]


def test_a_failure_while_the_board_was_another_s_is_not_the_board_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    """Its host stood still longer than its lease, and pytest failed before the next sign of life."""
    book = timers(store)
    job = book.enqueue(order(tmp_path))

    def command(*_args: object) -> list[str]:
        store.begin_run("boot", "am62xx_sk", "one", "", plan={}, provenance={}, job_id=job.id)
        other = JobQueue(store, "another host", lambda _who: True)
        assert other.start(other.enqueue(order(tmp_path)).id) is not None
        return ["sh", "-c", "exit 1"]

    monkeypatch.setattr(runner, "command", command)
    slow = Runner(book, RunnerPaths(tmp_path, tmp_path, None), print, heartbeat_s=3600.0)
    with pytest.raises(LabStableError) as caught:
        slow.run(job, 0)
    assert (caught.value.failure, book.job(job.id).state) == ("lease_lost", "interrupted")


def test_who_wants_the_board_a_second_time_is_asked_for_a_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    asked: list[str] = []
    times = tmp_path / "times"
    monkeypatch.setattr(
        runners, "other_user", lambda _queue, job: "lena has reserved it" if job.state == "running" else ""
    )

    def ask(_book: JobQueue, _job: int, who: str) -> None:
        asked.append(who)
        times.write_text("." * len(asked))

    monkeypatch.setattr(runners, "ask", ask)
    begun: list[int] = []

    def command(*_args: object) -> list[str]:
        begun.append(1)
        waits = f'while [ "$(cat {times} 2>/dev/null | wc -c)" -lt {len(begun)} ]; do sleep 0.05; done'
        return ["sh", "-c", f"{waits}; exit {GAVE_WAY}" if len(begun) < 3 else "exit 0"]

    monkeypatch.setattr(runner, "command", command)
    book = timers(store)
    assert quick(book, tmp_path, []).run(book.enqueue(order(tmp_path)), 0) == 0
    assert asked == ["lena has reserved it"] * 2


@pytest.mark.parametrize(("status", "begun"), [("completed", 0), ("interrupted", 1)])
def test_what_was_measured_whole_before_its_job_ended_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store, status: RunStatus, begun: int
) -> None:
    """It ended between the end of its run and the next suite: while it was judged, say."""
    pytests: list[str] = []

    def command(_job: object, _tests: Path, suite: str, _unfinished: int | None) -> list[str]:
        pytests.append(suite)
        store.finish_run(run.id, "completed")
        return ["true"]

    monkeypatch.setattr(runner, "command", command)
    book = timers(store)
    job = book.start(book.enqueue(order(tmp_path)).id)
    assert job is not None
    run = store.begin_run("boot", "am62xx_sk", "one", "", plan={}, provenance={}, job_id=job.id)
    store.finish_run(run.id, status)
    book.finish(job.id, "interrupted")
    assert quick(book, tmp_path, []).run(book.take_up(job.id), 0) == 0
    assert (book.job(job.id).state, len(pytests)) == ("completed", begun)


@pytest.mark.parametrize(("ended", "suites"), [("its suite", ("boot",)), ("a later suite", ("boot", "sections"))])
def test_a_suite_that_failed_before_its_job_was_killed_has_failed_when_it_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store, ended: str, suites: tuple[str, ...]
) -> None:
    """All samples are there, and a test failed: that a metric is missing, say."""
    monkeypatch.setattr(runner, "command", lambda *_args: ["true"])
    book = timers(store)
    job = book.start(book.enqueue(evolve(order(tmp_path), suites=suites)).id)
    assert job is not None
    confirming = {"confirms": 1}
    for provenance in ({}, confirming):
        run = store.begin_run("boot", "am62xx_sk", "one", "", plan={}, provenance=provenance, job_id=job.id)
        store.finish_run(run.id, "completed")
        note_tests(store, [run.id], failed=True)
    if ended == "a later suite":
        book.next_suite(job.id)
    book.finish(job.id, "interrupted")
    assert quick(book, tmp_path, []).run(book.take_up(job.id), 0) == 1
    assert book.job(job.id).state == "failed"
    note_tests(store, [run.id - 1], failed=False)
    assert not has_failed(store, job.id), "only what was to confirm a number is left"


def test_a_number_of_an_earlier_suite_is_worse_also_after_its_job_was_killed_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    monkeypatch.setattr(runner, "command", lambda *_args: ["true"])
    record(store, cycles=1)  # so that the store knows the metric
    book = timers(store)
    job = book.start(book.enqueue(evolve(order(tmp_path), suites=("boot", "sections"), options={"judge": True})).id)
    assert job is not None
    run = store.begin_run("boot", "am62xx_sk", "one", "", plan={}, provenance={}, job_id=job.id)
    store.finish_run(run.id, "completed")
    worse = NewVerdict("boot.time", 1, {"medium": "sd"}, "regression", 1, run.id, 20, 0.03, 0.02, 0.04)
    write_verdicts(store, run.id, [worse])
    book.next_suite(job.id)
    book.finish(job.id, "interrupted")
    said: list[str] = []
    assert quick(book, tmp_path, said).run(book.take_up(job.id), 0) == WORSE
    assert [line for line in said if line.startswith("verdict: boot.time (sd) on one: regression")]


def test_a_confirmation_that_fails_after_its_job_was_killed_is_no_failure_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    """As it is none where nobody was killed: all that was ordered is measured."""
    monkeypatch.setattr(runner, "command", lambda *_args: ["sh", "-c", "exit 1"])
    book = timers(store)
    job = book.start(book.enqueue(order(tmp_path)).id)
    assert job is not None
    for provenance, status in (({}, "completed"), ({"confirms": 1}, "failed")):
        run = store.begin_run("boot", "am62xx_sk", "one", "", plan={}, provenance=provenance, job_id=job.id)
        store.finish_run(run.id, status)
    book.finish(job.id, "interrupted")
    assert quick(book, tmp_path, []).run(book.take_up(job.id), 0) == 0
    assert book.job(job.id).state == "completed"


def test_a_job_that_was_taken_behind_its_last_sign_of_life_is_to_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    book = timers(store)
    job = book.enqueue(order(tmp_path))

    def stand_still(*_args: object) -> None:
        other = JobQueue(store, "another host", lambda _who: True)
        assert other.start(other.enqueue(order(tmp_path)).id) is not None

    monkeypatch.setattr(runner, "command", lambda *_args: ["sh", "-c", "exit 1"])
    monkeypatch.setattr(runner, "print_lab_faults", stand_still)
    assert quick(book, tmp_path, []).run(job, 0) == INTERRUPTED
    assert book.job(job.id).state == "interrupted"


def judged(store: Store, folder: Path, *suites: str) -> tuple[JobQueue, Job, int]:
    """A judged job that was interrupted behind its first suite, whose numbers may have moved: run 2."""
    record(store, cycles=1)  # so that the store knows the metric
    book = timers(store)
    job = book.start(book.enqueue(evolve(order(folder), suites=suites, options={"judge": True})).id)
    assert job is not None
    run = store.begin_run("boot", "am62xx_sk", "one", "", plan={}, provenance={}, job_id=job.id)
    store.finish_run(run.id, "completed")
    write_verdicts(store, run.id, [NewVerdict("boot.time", 1, {"medium": "sd"}, "unsure: rerun asked")])
    return book, job, run.id


@define
class Confirming:
    """A pytest that confirms a run: it begins or resumes one, whose attempts end as `ends` says."""

    store: Store
    job: Job
    ends: list[tuple[str, bool]]
    words: list[str] = field(factory=list)

    def __call__(self, _job: Job, suite: str, resumed: int | None, more: tuple[str, ...]) -> int:
        option, confirmed = more
        self.words.append(f"{suite}: {option} {confirmed}, resumes {resumed}")
        provenance = {"confirms": int(confirmed)}
        run_id = resumed
        if run_id is None:
            run = self.store.begin_run("boot", "a", "one", "", plan={}, provenance=provenance, job_id=self.job.id)
            run_id = run.id
        outcome, transient = self.ends.pop(0)
        if outcome != "ok":
            failure = evolve(
                failed(
                    self.store,
                    Failed(outcome, "lab", "it failed", None),
                    medium="sd",
                    cycle=1,
                    number=4 - len(self.ends),
                    at=utc_now(),
                ),
                transient=transient,
            )
            self.store.record_attempt(run_id, failure)
        self.store.finish_run(run_id, "completed" if outcome == "ok" else "failed")
        return int(outcome != "ok")


def ask_once(store: Store, run_id: int, measure: Callable[[int], int | None], _say: object) -> bool:
    """The judge, which a single run convinces that nothing has moved."""
    if measure(run_id) is not None:
        write_verdicts(store, run_id, [NewVerdict("boot.time", 1, {"medium": "sd"}, "none")])
    return True


@pytest.mark.parametrize(
    ("ends", "code", "words"),
    [
        pytest.param([("pdu_timeout", True), ("ok", False)], 0, ["None", "3"], id="a transient fault"),
        pytest.param([("pdu_timeout", True)] * 3, UNCONFIRMED, ["None", "3", "3"], id="one that stays"),
        pytest.param([("strap_missing", False)], UNCONFIRMED, ["None"], id="a stable fault"),
    ],
)
def test_what_a_killed_process_left_unconfirmed_is_measured_again_and_an_open_question_has_its_own_code(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    store: Store,
    ends: list[tuple[str, bool]],
    code: int,
    words: list[str],
) -> None:
    book, job, run = judged(store, tmp_path, "boot", "sections")
    book = evolve(book, pause=lambda _s: None)
    later = store.begin_run("sections", "am62xx_sk", "one", "", plan={}, provenance={}, job_id=job.id)
    store.finish_run(later.id, "completed")
    book.next_suite(job.id)
    book.finish(job.id, "interrupted")
    confirming = Confirming(store, job, list(ends))
    monkeypatch.setattr(Runner, "_is_measured", lambda *_args: True)
    monkeypatch.setattr(Runner, "_pytest", confirming)
    monkeypatch.setattr(rerun, "judge_with_reruns", lambda *given: given[1] != run or ask_once(*given))
    said: list[str] = []
    assert quick(book, tmp_path, said).run(book.take_up(job.id), 0) == code
    resumed = [word if word == "None" else str(later.id + 1) for word in words]
    assert confirming.words == [f"boot: --lab-confirms {run}, resumes {word}" for word in resumed]
    assert book.job(job.id).state == "completed"
    open_question = (
        f"not confirmed: numbers of run {run} may have moved; lab run --confirms {run} --env ENV measures them"
    )
    assert [line for line in said if line.startswith("not confirmed")] == [open_question] * (code == UNCONFIRMED)
    again: list[str] = []
    assert report_again(store, book.job(job.id), again.append) == code
    assert (open_question in again) == (code == UNCONFIRMED)


def test_an_order_to_confirm_a_run_fails_with_the_run_that_it_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    monkeypatch.setattr(runner, "command", lambda *_args: ["false"])
    book = timers(store)
    job = book.start(book.enqueue(evolve(order(tmp_path), options={"confirms": 1, "judge": True})).id)
    assert job is not None
    run = store.begin_run("boot", "am62xx_sk", "one", "", plan={}, provenance={"confirms": 1}, job_id=job.id)
    store.finish_run(run.id, "failed")
    book.finish(job.id, "interrupted")
    assert quick(book, tmp_path, []).run(book.take_up(job.id), 0) == 1
    assert book.job(job.id).state == "failed", "it can be resumed"


@pytest.mark.parametrize(
    ("outcome", "ends", "state"), [("place_lost", BUSY, "interrupted"), ("hang_kernel", 1, "failed")]
)
def test_a_run_whose_place_was_taken_away_is_gone_on_with_and_its_failure_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store, outcome: str, ends: int, state: str
) -> None:
    """A coordinator that is started again knows of nobody who has acquired a place."""
    monkeypatch.setattr(runner, "command", lambda *_args: ["false"])
    book = timers(store)
    job = book.start(book.enqueue(order(tmp_path)).id)
    assert job is not None
    run = store.begin_run("boot", "am62xx_sk", "one", "", plan={}, provenance={}, job_id=job.id)
    store.record_attempt(
        run.id, failed(store, Failed(outcome, "lab", "it failed", None), medium="sd", cycle=1, number=1, at=utc_now())
    )
    store.finish_run(run.id, "failed")
    note_tests(store, [run.id], failed=True)
    book.finish(job.id, "interrupted")
    assert quick(book, tmp_path, []).run(book.take_up(job.id), 0) == ends
    assert book.job(job.id).state == state
    monkeypatch.setattr(runner, "command", lambda *_args: ["true"])
    said: list[str] = []
    assert quick(book, tmp_path, said).run(book.take_up(job.id), 0) == ends, (
        "pytest says that all is well, and it lacks boots"
    )
    assert any(not missing_facts(line, f"run {run.id}", "not all") for line in said)

    def complete(*_args: object) -> list[str]:
        store.finish_run(run.id, "completed")
        return ["true"]

    monkeypatch.setattr(runner, "command", complete)
    assert quick(book, tmp_path, []).run(book.take_up(job.id), 0) == 0


@pytest.mark.parametrize(
    ("attempts", "told"),
    [
        pytest.param([("pdu_timeout", "lab", 1)], "failed by the lab: pdu_timeout (lab jobs show j1)", id="the lab"),
        pytest.param([("kernel_panic", "board", 1)], "", id="the release"),
        pytest.param([("pdu_timeout", "lab", 1), ("kernel_panic", "board", 2)], "", id="both"),
        pytest.param(
            [("kernel_panic", "board", 1), ("pdu_timeout", "lab", 1)],
            "failed by the lab: pdu_timeout (lab jobs show j1)",
            id="the last attempt of a cycle decides",
        ),
        pytest.param([("wrong_medium", "lab", 1)], "", id="a release may fall back to another medium"),
        pytest.param([], "", id="all was measured, and a test failed"),
    ],
)
def test_a_job_that_failed_by_the_lab_alone_says_so_also_when_it_is_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store, attempts: list[tuple[str, str, int]], told: str
) -> None:
    monkeypatch.setattr(runner, "command", lambda *_args: ["sh", "-c", "exit 1"])
    book = timers(store)
    job = book.start(book.enqueue(order(tmp_path)).id)
    assert job is not None
    run = store.begin_run("boot", "am62xx_sk", "one", "", plan={}, provenance={}, job_id=job.id)
    for number, (outcome, fault, cycle) in enumerate(attempts, 1):
        failure = Failed(outcome, fault, "it failed", None)
        store.record_attempt(run.id, failed(store, failure, medium="sd", cycle=cycle, number=number, at=utc_now()))
    store.finish_run(run.id, "failed")
    book.finish(job.id, "interrupted")
    said: list[str] = []
    assert quick(book, tmp_path, said).run(book.take_up(job.id), 0) == 1
    again: list[str] = []
    assert report_again(store, book.job(job.id), again.append) == 1
    for lines in (said, again):
        assert [line for line in lines if line.startswith("failed by the lab")] == [told] * bool(told)
