"""Runs of sessions of all kinds: store, summary, terminal lines."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from labgrid.pytestplugin.hooks import LABGRID_ENV_KEY

from lab.errors import BoardlabError
from lab.host.clock import MonotonicRaw
from lab.jobs import listing
from lab.provision import history
from lab.provision.history import Provision, ProvisionBook
from lab.provision.provisioning import first_boot
from lab.pytest_plugin import resume, session_rules
from lab.pytest_plugin.session_rules import ending_off
from lab.results import Run, Store
from lab.results.formatting import summary_lines
from lab.run.options import BOOT
from lab.run.provenance import collect
from lab.terminal import plain, plain_text

DEFAULT_CYCLES = 20  # as the performance guide has it

STRATEGY_KEY = pytest.StashKey[Any]()
STORE_KEY = pytest.StashKey[Store]()
MEDIA_KEY = pytest.StashKey[list[str]]()
JOB_KEY = pytest.StashKey[int]()
ITEMS_KEY = pytest.StashKey[list[pytest.Item]]()
RUNS_KEY = pytest.StashKey[list[int]]()  # of this session


def chosen(config: pytest.Config, measurer: str, parameter: str, names: list[str]) -> list[str]:
    """Select the `names` that the session's tests measure, in order.

    `-k`, `-m` and a test's own name select tests.

    All names, if a test chooses its items by itself.

    Args:
        measurer, parameter: the fixtures of the tests that measure, and that get one of the names each.
    """
    measured: set[str] = set()
    for item in config.stash[ITEMS_KEY]:
        if measurer in getattr(item, "fixturenames", ()):
            callspec = getattr(item, "callspec", None)
            if callspec is None or parameter not in callspec.params:
                return names
            measured.add(callspec.params[parameter])
    return [name for name in names if name in measured]


def open_run(config: pytest.Config, strategy: Any, kind: str, plan: dict[str, object]) -> Run:
    """Begin the session's run, or open the resumed one.

    Raises:
        ConfigurationError: the run to be resumed is of another board, release or plan.
    """
    run = _open_run(config, strategy, kind, plan)
    config.stash.setdefault(RUNS_KEY, []).append(run.id)
    return run


def _open_run(config: pytest.Config, strategy: Any, kind: str, plan: dict[str, object]) -> Run:
    store = config.stash[STORE_KEY]
    env = config.stash[LABGRID_ENV_KEY]
    if config.option.lab_resume is not None:
        run = resume.resumable(config, store)
        ours = check_resumed(store, strategy, media_of(run.plan, strategy), run, writer(config))
        resume.check(run, config, strategy, labelled_by_env=not ours)
        if run.status == "completed" and kind == BOOT and config.option.lab_where:
            return run  # for its diagnostic boots alone
        listing.end_pause(store, run.id)
        return store.reopen_run(run.id)
    release, provisioned = label(config, store, strategy, media_of(plan, strategy), writer(config))
    images = {name: Path(env.config.get_image_path(name)) for name in env.config.get_images()}
    return store.begin_run(
        kind=kind,
        board_type=strategy.type.name,
        board=strategy.board,
        release=release,
        plan=plan,
        provenance=collect(
            board_type=strategy.type,
            board=strategy.board,
            release=release,
            env=Path(env.config_file),
            images=images,
            clock=MonotonicRaw(),
            console=strategy.console.local_device,
            simulated=strategy.console.simulated,
            confirms=config.option.lab_confirms,
            provisioned=provisioned,
        ),
        job_id=config.stash.get(JOB_KEY, None),
    )


def summarise_run(terminalreporter: Any, config: pytest.Config, title: str, run_id: int) -> None:
    """A run's numbers, and what can be done with it next."""
    store = config.stash[STORE_KEY]
    try:
        run = store.run(run_id)
        terminalreporter.section(f"{title}, run {run_id}: {run.status}")
        for line in summary_lines(store, run_id):
            terminalreporter.write_line(plain(line))
    except BoardlabError as error:
        terminalreporter.write_line(plain_text(f"error: {error}"), red=True)
        return
    database = session_rules.database_of(config)
    where = f" --db {shlex.quote(database)}" if database else ""
    terminalreporter.write_line(f"report: lab report {run_id}{where}")
    terminalreporter.write_line(f"evidence: lab results show {run_id} --log{where}")
    if run.status != "completed":
        terminalreporter.write_line(plain(f"go on with: {session_rules.resume_command(config, run_id)}"))


def record_samples(store: Store, run_id: int, record: Callable[[str, object], None]) -> None:
    """The run's samples as properties of the session, for JUnit's XML."""
    record("boardlab_run", run_id)
    for measurement in store.measurements(run_id):
        label = ",".join(f"{k}={v}" for k, v in measurement.params.items())
        values = ";".join(f"{s.value:.6f}" for s in measurement.samples)
        record(f"{measurement.metric.name}[{label}] {measurement.metric.unit}", values)


def writer(config: pytest.Config) -> Callable[[str], None]:
    """Writer of terminal lines during a test, past pytest's capturing."""
    terminal = config.pluginmanager.getplugin("terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")

    def write(line: str) -> None:
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            terminal.ensure_newline()
            terminal.write_line(plain_text(line))
            terminal.flush()

    return write


def media_of(plan: Mapping[str, Any], strategy: Any) -> list[str]:
    """Media that a run of that plan boots from."""
    return list(plan.get("media") or [plan.get("medium") or strategy.medium])


def label(
    config: pytest.Config, store: Store, strategy: Any, media: Sequence[str], write: Callable[[str], None]
) -> tuple[str, dict[str, dict[str, object]]]:
    """Label and provisioning of a new run, for its provenance.

    Args:
        write: takes lines for a person.

    Raises:
        ConfigurationError: `--lab-release` says something else; the media hold different releases, or one was not
            written whole.
        pytest.exit.Exception: a medium that had never booted does not boot, or boots another release.
    """
    provisions = _provisions(store, strategy, media, write)
    default = str(config.stash[LABGRID_ENV_KEY].config.get_option("release", "unreleased"))
    label = history.run_label(strategy.board, media, provisions, config.option.lab_release or "", default)
    _expect(strategy, media, provisions)
    return label, history.run_document(media, provisions)


def check_resumed(store: Store, strategy: Any, media: Sequence[str], run: Run, write: Callable[[str], None]) -> bool:
    """Make sure that a resumed run's software is still there.

    Returns True if boardlab put it there.

    Raises:
        ConfigurationError: something else was provisioned since.
        pytest.exit.Exception: as of `label`.
    """
    provisions = _provisions(store, strategy, media, write)
    history.check_resumed(strategy.board, media, provisions, run.release, run.id)
    _expect(strategy, media, provisions)
    return any(medium in provisions for medium in media)


def _provisions(
    store: Store, strategy: Any, media: Sequence[str], write: Callable[[str], None]
) -> dict[str, Provision]:
    """Releases on the board.

    A medium of these that was written and never booted is booted and compared first.
    """
    log = ProvisionBook(store)
    provisions = log.current(strategy.board)
    untried = [
        provisions[medium]
        for medium in dict.fromkeys(media)
        if medium in provisions and provisions[medium].state == "written"
    ]
    if not untried:
        return provisions
    selected = strategy.medium
    with ending_off(strategy):
        for provision in untried:
            first_boot(strategy, provision, log, write)
        strategy.transition("off")
    strategy.select_medium(selected)
    return log.current(strategy.board)


def _expect(strategy: Any, media: Sequence[str], provisions: dict[str, Provision]) -> None:
    """Each boot of the session is compared with the boot after provisioning."""
    strategy.expected = {
        medium: dict(provisions[medium].software)
        for medium in media
        if medium in provisions and provisions[medium].is_on_it
    }
