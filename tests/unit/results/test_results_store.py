"""What the store promises, on every database; see conftest.py for which."""

from __future__ import annotations

import datetime as dt
import logging
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from attrs import evolve, fields_dict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import DBAPIError
from support.facts import missing_facts

from lab.errors import ConfigurationError, TestStableError
from lab.metrics import Flag, Metric
from lab.metrics.model import sample_of
from lab.results import (
    ArtifactRef,
    AttemptRecord,
    Moment,
    Run,
    RunStatus,
    SampleRecord,
    Store,
    open_store,
    plan_differences,
)
from lab.results.audit import Audit
from lab.results.database import explain
from lab.results.location import locate
from lab.results.models import AuditRow, Base, ProvisionRow, VerdictRow
from lab.results.records import GoodAttempt
from lab.results.schema import VERSION_TABLE
from lab.results.snapshot import watch

AT = dt.datetime(2026, 3, 2, 9, 30, tzinfo=dt.timezone(dt.timedelta(hours=1)))


def begin(store: Store, **changes: Any) -> Run:
    about = {"kind": "boot", "board_type": "am62xx_sk", "board": "0042", "release": "11.01"} | changes
    return store.begin_run(**about, plan={"cycles": 3, "media": ["sd"]}, provenance={"clock": "CLOCK_MONOTONIC_RAW"})


def good(cycle: int, value: float = 16.24, medium: str = "sd", **changes: Any) -> AttemptRecord:
    samples = (SampleRecord("boot.time", {"medium": medium}, value, 2e-4, frozenset(), 10, 99),)
    at = AT + dt.timedelta(minutes=cycle)
    record = AttemptRecord(cycle, 1, {"medium": medium}, "ok", None, None, "", at, 40.5, samples)
    return evolve(record, **changes)


def failed(cycle: int, number: int = 1) -> AttemptRecord:
    at = AT + dt.timedelta(minutes=cycle, seconds=10 * number)
    return AttemptRecord(cycle, number, {"medium": "sd"}, "hang_kernel", "board", True, "hung in kernel", at, 30.0)


def administer(database: str, *statements: str) -> None:
    """Change a database behind the store's back."""
    url = make_url(database)
    engine = create_engine(url if url.get_backend_name() == "sqlite" else url.set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


def test_a_run_comes_back_as_it_was_begun(store: Store) -> None:
    before = dt.datetime.now(dt.UTC)
    run = begin(store)
    assert store.run(run.id) == run
    assert (run.kind, run.board_type, run.board, run.release) == ("boot", "am62xx_sk", "0042", "11.01")
    assert (run.status, run.plan, run.finished_at) == ("running", {"cycles": 3, "media": ["sd"]}, None)
    assert before <= run.started_at <= dt.datetime.now(dt.UTC)


def test_runs_are_listed_from_the_newest(store: Store) -> None:
    first, second, third = (begin(store, board=name).id for name in "abc")
    assert [run.id for run in store.runs()] == [third, second, first]
    assert [run.id for run in store.runs(limit=2)] == [third, second]
    assert [run.id for run in store.runs(1, board_type="am62xx_sk", board="b")] == [second]


def test_a_finished_run_has_its_status_and_its_end(store: Store) -> None:
    run = begin(store)
    store.finish_run(run.id, "interrupted")
    ended = store.run(run.id)
    assert ended.status == "interrupted"
    assert ended.finished_at is not None
    assert ended.finished_at >= run.started_at


def test_an_attempt_comes_back_with_everything_that_was_recorded(store: Store) -> None:
    run = begin(store)
    record = AttemptRecord(
        cycle=2,
        number=1,
        params={"medium": "sd"},
        outcome="ok",
        fault=None,
        transient=None,
        message="",
        started_at=AT,
        duration_s=40.25,
        samples=(
            SampleRecord("boot.time", {"medium": "sd"}, 16.240031, 1.7e-4, frozenset({"simulated"}), 2**33, 2**33 + 5),
            SampleRecord("boot.stage", {"medium": "sd", "stage": "Kernel"}, 2.5, 0.0),
        ),
        artifacts=(ArtifactRef("console-index", "ab" * 32, 7), ArtifactRef("console-log", "cd" * 32, 2**40)),
        moments=(
            Moment("uboot", 2**62, 80_000, 11, "U-Boot 2023.01"),
            Moment("login", 2**62 + 1, 90_000, 2**40, "am62xx-evm login: "),
        ),
        details={"port": None, "seen": {"spl": "sd"}, "rates": [1, 2.5]},
    )
    attempt_id = store.record_attempt(run.id, record)
    (attempt,) = store.attempts(run.id)
    assert (attempt.id, attempt.run_id) == (attempt_id, run.id)
    returned = {name: getattr(attempt, name) for name in fields_dict(AttemptRecord)}
    assert AttemptRecord(**returned) == record


def test_every_attempt_is_there_for_another_program_at_once(store: Store, database: str) -> None:
    run = begin(store)
    store.record_attempt(run.id, good(1))
    with open_store(database) as other:
        assert [a.cycle for a in other.attempts(run.id)] == [1]


def test_samples_name_their_cycle_and_can_be_asked_for_by_metric(store: Store) -> None:
    run, other = begin(store), begin(store)
    stage = SampleRecord("boot.stage", {"medium": "sd", "stage": "Kernel"}, 2.0, 1e-4)
    record = good(2, value=16.0)
    attempt_id = store.record_attempt(run.id, evolve(record, samples=(*record.samples, stage)))
    store.record_attempt(other.id, good(1, value=99.0))
    assert [s.metric for s in store.samples(run.id)] == ["boot.time", "boot.stage"]
    (sample,) = store.samples(run.id, metric="boot.time")
    assert (sample.value, sample.cycle, sample.attempt_id) == (16.0, 2, attempt_id)
    assert (sample.unit, sample.version) == ("s", 1)


def test_measurements_hold_the_samples_by_cycle_with_flags_and_provenance(store: Store) -> None:
    run = begin(store)
    flagged = SampleRecord("boot.time", {"medium": "sd"}, 16.3, 1e-4, frozenset({"off_unverified"}))
    store.record_attempt(run.id, good(2, value=16.2))
    store.record_attempt(run.id, good(1, value=15.1, medium="emmc"))
    store.record_attempt(run.id, good(1, samples=(flagged,)))
    sd, emmc = store.measurements(run.id)
    assert [m.params["medium"] for m in (sd, emmc)] == ["sd", "emmc"]
    assert [(s.cycle, s.value) for s in sd.samples] == [(1, 16.3), (2, 16.2)]
    assert sd.flags == {Flag.OFF_UNVERIFIED}
    assert sd.metric.name == "boot.time"
    assert sd.provenance["clock"] == "CLOCK_MONOTONIC_RAW"
    assert (sd.provenance["run"], sd.provenance["board"], sd.provenance["release"]) == (run.id, "0042", "11.01")


def test_a_number_keeps_the_definition_it_was_measured_by(store: Store, database: str) -> None:
    run = begin(store)
    store.record_attempt(run.id, good(1))
    administer(database, "UPDATE definitions SET definition = 'as it was in 2025', resolution = 0.5")
    store.record_attempt(run.id, good(2))
    (measurement,) = store.measurements(run.id)
    assert (measurement.metric.definition, measurement.metric.resolution) == ("as it was in 2025", 0.5)
    assert len(measurement.samples) == 2


def test_a_labs_metric_that_the_results_have_otherwise_is_refused(store: Store) -> None:
    frame = Metric("camera.first_frame", "s", "lower", "To the first frame.", 0.001, "a test")
    run = begin(store)
    store.record_attempt(run.id, evolve(good(1), samples=(sample_of(frame, {"medium": "sd"}, 0.4, declared=True),)))
    for same in (frame, evolve(frame, version=2, unit="ms"), evolve(frame, name="camera.first_frames")):
        store.check_definition(same)
    refused = {
        "in the results with another definition: unit 'ms' here, 's' in the results": evolve(frame, unit="ms"),
        "better 'higher' here, 'lower' in the results": evolve(frame, better="higher"),
        "have one name in Prometheus, boardlab_camera_first_frame": evolve(frame, name="camera.first.frame"),
    }
    for number, (told, wrong) in enumerate(refused.items(), 2):
        with pytest.raises(ConfigurationError, match=told):
            store.check_definition(wrong)
        record = evolve(good(number), samples=(sample_of(wrong, {"medium": "emmc"}, 0.4, declared=True),))
        with pytest.raises(ConfigurationError, match=told):
            store.record_attempt(run.id, record)
    assert [attempt.cycle for attempt in store.attempts(run.id)] == [1]


def test_a_failed_attempt_is_kept_but_gives_no_sample(store: Store) -> None:
    run = begin(store)
    store.record_attempt(run.id, failed(1))
    store.record_attempt(run.id, good(1, number=2))
    first, second = store.attempts(run.id)
    assert (first.outcome, first.fault, first.transient, first.message) == (
        "hang_kernel",
        "board",
        True,
        "hung in kernel",
    )
    assert (first.ok, second.ok) == (False, True)
    assert [s.attempt_id for s in store.samples(run.id)] == [second.id]
    assert store.outcomes(run.id) == {"hang_kernel": 1, "ok": 1}
    assert store.good_attempts(run.id) == [GoodAttempt(second.params, 1, second.details)]
    assert second.samples


def test_recording_the_same_attempt_again_changes_nothing(store: Store) -> None:
    run = begin(store)
    first = store.record_attempt(run.id, good(1))
    assert store.record_attempt(run.id, good(1)) == first
    assert len(store.samples(run.id)) == 1


def test_a_cycle_is_not_measured_twice(store: Store) -> None:
    run = begin(store)
    store.record_attempt(run.id, good(1))
    later = good(1, number=2, started_at=AT + dt.timedelta(hours=1))
    with pytest.raises(TestStableError, match=r"cycle 1 .*already"):
        store.record_attempt(run.id, later)
    assert len(store.samples(run.id)) == 1
    store.record_attempt(run.id, good(1, medium="emmc"))
    assert len(store.samples(run.id)) == 2


def test_a_resumed_run_goes_on_counting_the_attempts_of_a_cycle(store: Store) -> None:
    run = begin(store)
    store.record_attempt(run.id, failed(1, number=1))
    store.record_attempt(run.id, failed(1, number=2))
    store.record_attempt(run.id, good(1, number=1, started_at=AT + dt.timedelta(hours=1)))
    assert [a.number for a in store.attempts(run.id)] == [1, 2, 3]


def test_a_run_that_was_killed_is_taken_up_again(store: Store) -> None:
    run = begin(store)
    assert store.reopen_run(run.id) == run
    store.finish_run(run.id, "failed")
    reopened = store.reopen_run(run.id)
    assert (reopened.status, reopened.finished_at) == ("running", None)
    assert store.run(run.id) == reopened


def test_a_completed_run_is_not_reopened_and_takes_nothing_more(store: Store) -> None:
    run = begin(store)
    store.finish_run(run.id, "completed")
    with pytest.raises(ConfigurationError, match=f"run {run.id} is completed"):
        store.reopen_run(run.id)
    with pytest.raises(TestStableError, match="nothing may be added"):
        store.record_attempt(run.id, good(1))
    assert store.attempts(run.id) == []


@pytest.mark.parametrize("status", ["interrupted", "failed", "running"])
def test_a_completed_run_stays_completed_when_a_late_session_ends(store: Store, status: RunStatus) -> None:
    run = begin(store)
    store.finish_run(run.id, "completed")
    ended = store.run(run.id)
    store.finish_run(run.id, status)
    assert store.run(run.id) == ended


def test_an_unknown_run_is_named_with_the_latest_ones(store: Store) -> None:
    with pytest.raises(ConfigurationError, match=r"no run 4711.*none"):
        store.run(4711)
    run = begin(store)
    for ask in (store.run, store.reopen_run, store.attempts, store.good_attempts, store.samples, store.measurements):
        with pytest.raises(ConfigurationError, match=f"no run 4711.*{run.id} .*boot"):
            ask(4711)
    with pytest.raises(ConfigurationError, match="no run 4711"):
        store.record_attempt(4711, good(1))
    with pytest.raises(ConfigurationError, match="no run 4711"):
        store.finish_run(4711, "completed")


def test_a_run_ends_only_in_a_known_way(store: Store) -> None:
    run = begin(store)
    with pytest.raises(TestStableError, match=r"failed; got 'done'"):
        store.finish_run(run.id, "done")
    assert store.run(run.id).status == "running"


def test_an_unknown_metric_leaves_nothing_of_its_attempt(store: Store) -> None:
    run = begin(store)
    samples = (*good(1).samples, SampleRecord("boot.tiem", {"medium": "sd"}, 1.0, 0.1))
    with pytest.raises(TestStableError, match=r"'boot\.tiem'.*boot\.time"):
        store.record_attempt(run.id, good(1, samples=samples))
    assert store.attempts(run.id) == []
    assert store.measurements(run.id) == []


def test_a_plan_that_is_no_json_is_refused(store: Store) -> None:
    with pytest.raises(TestStableError, match=r"plan.*JSON"):
        store.begin_run("boot", "am62xx_sk", "0042", "11.01", plan={"media": {"sd"}}, provenance={})
    with pytest.raises(TestStableError, match=r"provenance.*JSON"):
        store.begin_run("boot", "am62xx_sk", "0042", "11.01", plan={}, provenance={"x": float("nan")})
    assert store.runs() == []


@given(st.text(st.characters()), st.binary(max_size=40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_console_says_can_be_kept(store: Store, line: str, noise: bytes) -> None:
    run = begin(store)
    said = noise.decode("utf-8", "surrogateescape") + line
    record = evolve(failed(1), message=said, moments=(Moment("spl", 1, 1, 1, said),), details={"last": said})
    store.record_attempt(run.id, record)
    (attempt,) = store.attempts(run.id)
    assert attempt.details == {"last": said}
    expected = said.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    assert (attempt.message, attempt.moments[0].text) == (expected, expected)


def test_the_migrations_make_what_the_models_say(store: Store, database: str) -> None:
    begin(store)
    url = make_url(database)
    engine = create_engine(url if url.get_backend_name() == "sqlite" else url.set(drivername="postgresql+psycopg"))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        for table in (VerdictRow, ProvisionRow, AuditRow):
            assert table.metadata is Base.metadata  # whose tables are there once all modules are
        assert compare_metadata(context, Base.metadata) == []
    engine.dispose()


def test_opening_again_keeps_what_is_there(database: str) -> None:
    with open_store(database) as store:
        run = begin(store)
    with open_store(database) as store:
        assert store.run(run.id) == run


def test_a_database_of_a_newer_boardlab_is_left_alone(database: str) -> None:
    with open_store(database) as store:
        begin(store)
    administer(database, "UPDATE boardlab_schema SET version_num = '9999'")
    with pytest.raises(ConfigurationError, match=r"schema is 9999.*update"):
        open_store(database)


def test_a_database_of_before_1_0_is_said_to_be_older(database: str) -> None:
    with open_store(database) as store:
        begin(store)
    administer(database, "UPDATE boardlab_schema SET version_num = '0014_release_identity'")
    with pytest.raises(ConfigurationError, match=r"older.*before 1\.0"):
        open_store(database)


def test_a_database_of_something_else_is_left_alone(database: str) -> None:
    administer(database, "CREATE TABLE invoices (id INTEGER)")
    with pytest.raises(ConfigurationError, match=r"something else"):
        open_store(database)
    administer(database, "DROP TABLE invoices")
    open_store(database).close()


def test_a_flag_of_a_newer_boardlab_asks_for_an_update(store: Store, database: str) -> None:
    run = begin(store)
    store.record_attempt(run.id, good(1))
    administer(database, "UPDATE samples SET flags = 'moon_phase'")
    with pytest.raises(ConfigurationError, match=r"moon_phase.*update"):
        store.measurements(run.id)


def test_plans_differ_where_a_value_does() -> None:
    stored = {"cycles": 20, "media": ["sd", "emmc"]}
    assert plan_differences(stored, {"media": ("sd", "emmc"), "cycles": 20}) == []
    cycles, retries = plan_differences(stored, {"cycles": 10, "media": ["sd", "emmc"], "retries": 2})
    assert not missing_facts(cycles, "cycles", "has 20", "now", "10")
    assert not missing_facts(retries, "retries", "not given", "now", "2")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"duration_s": float("nan")}, "duration_s of a AttemptRecord must be a finite number"),
        ({"started_at": AT.replace(tzinfo=None)}, "started_at needs a time zone"),
        ({"fault": "board"}, "an attempt that is ok is nobody's fault"),
        ({"outcome": "silent"}, "a failed attempt is the fault of"),
        ({"outcome": "silent", "fault": "board"}, "must not enter the samples"),
        ({"details": {"x": object()}}, "cannot be written as JSON"),
    ],
)
def test_an_attempt_that_makes_no_sense_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(TestStableError, match=says):
        good(1, **change)


@pytest.mark.parametrize(
    ("value", "uncertainty", "flags", "says"),
    [
        (float("inf"), 0.1, frozenset(), "value of a SampleRecord must be a finite number"),
        (1.0, float("nan"), frozenset(), "uncertainty of a SampleRecord must be a finite number"),
        (1.0, -0.1, frozenset(), "must not be negative"),
        (1.0, 0.1, frozenset({"medium_unverifed"}), "unknown flags medium_unverifed on boot.time"),
    ],
)
def test_a_sample_that_makes_no_sense_is_refused(
    value: float, uncertainty: float, flags: frozenset[str], says: str
) -> None:
    with pytest.raises(TestStableError, match=says):
        SampleRecord("boot.time", {"medium": "sd"}, value, uncertainty, flags)


def test_the_contents_of_a_run_are_its_run_attempts_and_measurements(store: Store) -> None:
    run = begin(store)
    store.record_attempt(run.id, failed(1))
    store.record_attempt(run.id, good(1, number=2))
    contents = store.contents(run.id)
    assert (contents.run, contents.attempts) == (store.run(run.id), store.attempts(run.id))
    assert contents.measurements == store.measurements(run.id)


def test_what_alembic_says_of_itself_is_in_no_log(
    database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger("alembic"), "level", logging.NOTSET)  # as it is in a new process
    caplog.set_level(logging.INFO)  # as `lab run` and `lab exporter` have it
    for _ in range(2):
        with open_store(database), watch(database).snapshot() as snapshot:
            assert snapshot.heads() == []
    assert [record.name for record in caplog.records] == ["lab.results.schema"]
    assert "has schema 0" in caplog.text


def test_a_value_that_the_database_cannot_keep_is_said_at_once_and_is_no_lost_server(store: Store) -> None:
    try:
        found = Audit(store).entries(board="a\0b")
    except ConfigurationError as error:  # PostgreSQL has no NUL in texts
        assert "keeps no such value" in str(error)  # noqa: PT017 - SQLite has it
    else:
        assert found == []


def test_what_the_driver_refuses_to_send_is_no_lost_server(tmp_path: Path) -> None:
    psycopg = pytest.importorskip("psycopg")
    dumper = psycopg.adapters.get_dumper(str, psycopg.adapt.PyFormat.AUTO)
    with pytest.raises(psycopg.DataError) as refused:
        dumper(str).dump("a\0b")
    error = DBAPIError.instance("SELECT 1", {}, refused.value, psycopg.Error)
    assert isinstance(error, DBAPIError)
    told = explain(error, locate(f"sqlite:///{tmp_path / 'results.db'}"))
    assert isinstance(told, ConfigurationError)
    assert "keeps no such value" in str(told)


def test_a_new_store_and_its_artifacts_are_not_for_every_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for variable in ("LAB_DB", "LAB_ARTIFACTS"):
        monkeypatch.delenv(variable, raising=False)
    before = os.umask(0o022)
    try:
        with open_store() as store:
            store.artifacts.put(b"a console's log", kind="console-log")
            made = [store.location.path, *(tmp_path / "data" / "boardlab").rglob("*")]
            modes = {
                path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "data" / "boardlab", *made) if path
            }
    finally:
        os.umask(before)
    assert len(modes) >= 4
    assert [(path, oct(mode)) for path, mode in modes.items() if mode & 0o007] == []
    assert all(mode & 0o040 for mode in modes.values()), "a group may read them"
