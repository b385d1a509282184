"""A session of pytest that measures: which sections it chooses, and how it holds its board."""

from __future__ import annotations

import datetime as dt
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from lab import boards
from lab.health.reservations import IGNORE, ReservationBook
from lab.host.clock import utc_now
from lab.host.process import PERSON_VARIABLE
from lab.jobs import listing
from lab.jobs.queue import JobQueue, has_failed
from lab.jobs.records import BY_PYTEST, JOB_VARIABLE, LEASE_S, Order
from lab.pytest_plugin import jobs, runs, sections
from lab.pytest_plugin.jobs import HOLDER_KEY, Holder
from lab.pytest_plugin.runs import ITEMS_KEY, JOB_KEY, STORE_KEY, STRATEGY_KEY
from lab.pytest_plugin.sections import Choice
from lab.results import Store, open_store
from lab.run import options

BOARD = boards.load("am62xx_sk")
ORDER = Order(BOARD.name, "b1", ("boot",), "e", "", None)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "results.db")) as store:
        yield store


def test_a_session_on_a_reserved_board_is_refused_with_who_why_and_until_when(store: Store) -> None:
    ReservationBook(store).reserve("b1", "lena", "a new PMIC", 4)
    with pytest.raises(pytest.UsageError, match=r"b1 .*lena .*a new PMIC") as caught:
        jobs.take_board(config(store, [item("boot_measurer")], lab_ignore_reservation=True))
    assert "it is yours" not in str(caught.value)
    assert listing.job(store, 1).state == "refused"


def test_a_session_of_whom_the_board_is_reserved_for_goes_on_when_it_says_so(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PERSON_VARIABLE, "lena")
    ReservationBook(store).reserve("b1", "lena", "a new PMIC", 4)
    with pytest.raises(pytest.UsageError, match=f"it is yours: add {IGNORE}"):
        jobs.take_board(config(store, [item("boot_measurer")]))
    session = config(store, [item("boot_measurer")], lab_ignore_reservation=True)
    jobs.take_board(session)
    session.stash[HOLDER_KEY].finish("completed")
    assert listing.job(store, 2).person == "lena"


def test_a_session_says_that_it_watches_a_job_that_seems_dead(store: Store) -> None:
    silent = JobQueue(store, "lab2/boot/7", lambda _holder: None, lambda: utc_now() - dt.timedelta(hours=1))
    assert silent.start(silent.enqueue(ORDER).id) is not None
    lines: list[str] = []

    def write_line(line: str) -> None:
        lines.append(line)
        silent.cancel(2, "lena")

    session = config(store, [item("boot_measurer")])
    session.pluginmanager.get_plugin = {"terminalreporter": SimpleNamespace(write_line=write_line)}.get
    with pytest.raises(pytest.UsageError, match="job j2 was cancelled"):
        jobs.take_board(session)
    (line,) = lines
    assert line.startswith("job j2 waits: ")
    assert "j1" in line


class Item:
    """A test that uses one fixture."""

    def __init__(self, fixture: str) -> None:
        self.fixturenames = [fixture]


def item(fixture: str = "section_measurer") -> Any:
    return Item(fixture)


def config(store: Store, items: list[Any], **given: Any) -> Any:
    stash = pytest.Stash()
    stash[STORE_KEY] = store
    stash[STRATEGY_KEY] = SimpleNamespace(type=BOARD, board="b1")
    stash[ITEMS_KEY] = items
    said = {option.dest: option.default for option in options.TABLE} | {
        "lab_destructive": False,
        "lab_resume": None,
        "lab_ignore_reservation": False,
    }
    option = SimpleNamespace(**said | {"lab_cycles": None, "lab_release": None, "lg_env": "am62x.yaml"} | given)
    hook = SimpleNamespace(pytest_deselected=lambda **_items: None)
    terminal = SimpleNamespace(get_plugin=lambda _name: None)
    return SimpleNamespace(stash=stash, option=option, hook=hook, pluginmanager=terminal)


def left(choice: Choice, session: Any, names: list[str], others: list[Any]) -> tuple[list[str], int]:
    """The sections that stay of these, and how many other tests."""
    items = [item() for _ in names]
    sections = {id(each): name for each, name in zip(items, names, strict=True)}
    wanted = [*items, *others]
    choice.apply(session, wanted, sections)
    stay = [sections[id(each)] for each in wanted if id(each) in sections]
    return stay, len(wanted) - len(stay)


def test_sections_that_are_asked_for_are_all_that_is_measured(store: Store) -> None:
    others = [item("boot_measurer"), item("own_fixture")]
    session = config(store, others, lab_sections=["stream,lmbench"])
    choice = sections.of_session(session)
    assert left(choice, session, ["lmbench", "dhrystone", "stream"], others) == (["lmbench", "stream"], 1)
    nothing = sections.of_session(config(store, others))
    assert left(nothing, session, ["lmbench", "dhrystone"], others) == (["lmbench", "dhrystone"], 2)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("lmbnch", "--lab-sections lmbnch: there is no such section; did you mean lmbench?"),
        ("nand-ubifs", f"--lab-sections nand-ubifs: {BOARD.title} does not have what it measures"),
        ("sd-fio", "--lab-sections sd-fio: none of these tests measures it; its chapter is "),
    ],
)
def test_a_section_that_nothing_measures_is_refused_with_its_mend(store: Store, name: str, says: str) -> None:
    session = config(store, [], lab_sections=[name])
    with pytest.raises(pytest.UsageError) as caught:
        left(sections.of_session(session), session, ["lmbench"], [])
    assert says in str(caught.value)


def test_a_run_that_is_resumed_measures_what_its_plan_has_and_overwrites_what_it_may(store: Store) -> None:
    plan = {"sections": ["sd-fio", "lmbench"], "destructive": True}
    run = store.begin_run("sections", BOARD.name, "b1", "", plan=plan, provenance={}).id
    session = config(store, [], lab_resume=run)
    choice = sections.of_session(session)
    assert choice.destructive
    assert left(choice, session, ["stream", "sd-fio", "lmbench"], []) == (["sd-fio", "lmbench"], 0)


def test_a_session_is_a_job_with_its_kinds_and_options_until_it_ends(store: Store) -> None:
    items = [item("boot_measurer"), item("section_measurer"), item("own_fixture")]
    session = config(store, items, lab_medium=["sd"], lab_cycles=3)
    jobs.take_board(session)
    job = listing.job(store, session.stash[JOB_KEY])
    assert (job.state, job.program, job.suites, job.cycles) == ("running", BY_PYTEST, ("boot", "sections"), 3)
    assert dict(job.options) == {"medium": ["sd"]}
    with pytest.raises(pytest.UsageError, match=f"b1 is busy: job {job.called} .boot,sections. of "):
        jobs.take_board(config(store, items))
    jobs.pytest_sessionfinish(SimpleNamespace(config=session), pytest.ExitCode.TESTS_FAILED)  # type: ignore[arg-type]
    assert listing.job(store, job.id).state == "failed"
    again = config(store, items)
    jobs.take_board(again)
    again.stash[HOLDER_KEY].finish("completed")


def test_the_session_of_a_lab_run_takes_no_job_of_its_own(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    book = JobQueue(store, "one", lambda _who: False)
    job = book.start(book.enqueue(ORDER).id)
    assert job is not None
    monkeypatch.setenv(JOB_VARIABLE, job.called)
    session = config(store, [item("boot_measurer")])
    jobs.take_board(session)
    assert session.stash[JOB_KEY] == job.id
    assert HOLDER_KEY not in session.stash
    monkeypatch.setenv(JOB_VARIABLE, "j99")
    with pytest.raises(pytest.UsageError, match="b1 is busy: job j1"):
        jobs.take_board(config(store, [item("boot_measurer")]))
    monkeypatch.setenv(JOB_VARIABLE, job.called)
    book.finish(job.id, "interrupted")  # while the host stood still
    before = len(listing.jobs(store, 9, utc_now()))
    with pytest.raises(pytest.UsageError, match=f"job {job.called}.*interrupted"):
        jobs.take_board(config(store, [item("boot_measurer")]))
    assert len(listing.jobs(store, 9, utc_now())) == before, "it has no job of its own"


@pytest.mark.parametrize("why", ["cancelled", "lost"])
def test_a_session_ends_where_its_job_is_cancelled_or_its_board_another_s(store: Store, why: str) -> None:
    book = JobQueue(store, "one", lambda _who: None)
    job = book.start(book.enqueue(ORDER).id)
    assert job is not None
    told = threading.Event()

    def handler(_number: int, _frame: FrameType | None) -> None:
        told.set()

    before = signal.signal(signal.SIGTERM, handler)
    holder = Holder(book, job.id, heartbeat_s=0.001)
    try:
        if why == "cancelled":
            book.cancel(job.id, "ann")
        else:
            late = JobQueue(store, "two", lambda _who: True)
            assert late.start(late.enqueue(ORDER).id) is not None
        holder.start()
        assert told.wait(60), os.getpid()
    finally:
        holder.finish("interrupted")
        signal.signal(signal.SIGTERM, before)
    if why == "cancelled":
        assert holder.lost == "the job was cancelled"
        assert listing.job(store, job.id).state == "cancelled"
    else:
        assert f"more than {LEASE_S:g} s" in holder.lost


@pytest.mark.parametrize(
    ("ends", "known"),
    [
        ((pytest.ExitCode.TESTS_FAILED,), True),
        ((pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED), True),
        ((pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.OK), False),
        ((pytest.ExitCode.OK,), False),
    ],
)
def test_a_session_whose_test_failed_says_so_at_its_run(
    store: Store, monkeypatch: pytest.MonkeyPatch, ends: tuple[pytest.ExitCode, ...], *, known: bool
) -> None:
    """In that of `lab run`, too, whose job the session does not hold itself; as often as the run goes on."""
    session = config(store, [item()])
    jobs.take_board(session)
    run = store.begin_run("boot", BOARD.name, "b1", "", plan={}, provenance={}, job_id=session.stash[JOB_KEY])
    monkeypatch.setattr(runs, "_open_run", lambda *_args: run)
    for end in ends:
        again = config(store, [item()])
        runs.open_run(again, None, "boot", {})
        jobs.pytest_sessionfinish(SimpleNamespace(config=again), end)  # type: ignore[arg-type]
    assert not has_failed(store, session.stash[JOB_KEY]), "it can be gone on with"
    store.finish_run(run.id, "completed")
    assert has_failed(store, session.stash[JOB_KEY]) == known
    session.stash[HOLDER_KEY].finish("completed")
