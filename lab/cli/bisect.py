"""`lab bisect`: find the build that made a board's boot slower, by paired boots."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from attrs import asdict, define, field

from lab.cli.ab import MediaSwitch, begin_side, boots_of, say
from lab.cli.options import BoardEnv, BootMedium, Database, Effect, Json, Wait
from lab.cli.provision import BootsReserved, hold, strategy_of, switch_off
from lab.env import envfile
from lab.errors import ConfigurationError
from lab.farm.runner import UNCONFIRMED
from lab.jobs.lease import open_results
from lab.jobs.records import BY_BISECT, Order
from lab.judge.bisection import BisectionResult
from lab.judge.paired import EFFECT
from lab.metrics.catalogue import BOOT_POWER_ON, BOOT_STAGE, HEADLINE_NAMES
from lab.provision.history import ProvisionBook
from lab.provision.release import Release
from lab.provision.releasefile import files_in, load
from lab.results import Run, Store
from lab.results.records import BISECT, LAST_ID
from lab.run.boot import BootRun
from lab.run.options import MAX_CYCLES
from lab.run.pairs import BootPairs, bisect
from lab.terminal import echo, echo_json, log_to

_PER_CENT: Final = 100.0
_METRICS: Final = {*HEADLINE_NAMES, BOOT_POWER_ON.name, BOOT_STAGE.name}

app = typer.Typer(help="Find the build that made a board's boot slower, by paired boots.")


@app.command("bisect")
def bisect_command(
    *,
    good: Annotated[Path, typer.Option(metavar="FILE", help="Release file of a build that is good.")],
    bad: Annotated[Path, typer.Option(metavar="FILE", help="Of a later one in the same folder that is bad.")],
    env: BoardEnv,
    medium: BootMedium = "",
    effect: Effect = EFFECT * _PER_CENT,
    metric: Annotated[
        str,
        typer.Option(
            metavar="METRIC[:STAGE]",
            help="Number of a boot, e.g. boot.power_on_to_prompt or 'boot.stage:Kernel' (default: the boot time).",
        ),
    ] = "",
    resume: Annotated[
        int | None, typer.Option(min=1, max=LAST_ID, metavar="RUN", help="Go on with the search of this run.")
    ] = None,
    wait: Wait = 0.0,
    ignore: BootsReserved = False,
    as_json: Json = False,
    db: Database = None,
) -> None:
    """Search a folder's release files for the first bad one.

    Their order is that of their writing.

    Each step boots pairs of the good build and another one. A build that does not boot is skipped.
    """
    log_to(sys.stderr)
    name, _, stage = metric.partition(":")
    if name not in {"", *_METRICS} or (name == BOOT_STAGE.name) != bool(stage):
        raise ConfigurationError(
            f"--metric {metric}: expected {', '.join(sorted(_METRICS))}; of {BOOT_STAGE.name} as "
            f"{BOOT_STAGE.name}:STAGE"
        )
    path = envfile.find(env, Path.cwd())
    strategy = strategy_of(env)
    if medium:
        strategy.select_medium(medium)
    builds = releases_between(good, bad, strategy.type.name)
    with open_results(db, wait, say) as store:
        order = Order(strategy.type.name, strategy.board, (BISECT,), str(path), "", None, {})
        with hold(store, order, wait, ignore, BY_BISECT) as job:
            first = _first(store, strategy, path, [build.name for build in builds], metric, resume)
            say(f"run {first.id}: {len(builds)} builds; lab bisect --resume {first.id} goes on")
            sides = BuildBoots(store, strategy, path, first)
            switch = MediaSwitch(strategy, {build.name: build for build in builds}, ProvisionBook(store), job.id)
            pairs = BootPairs(
                sides,
                int(first.plan["seed"]),
                strategy.medium,
                switch.switch,
                alternates=True,
                cool=switch.cool,
                metric=name,
                stage=stage,
            )
            done = False
            try:
                strategy.check_lab()
                bisected = bisect(pairs, [build.name for build in builds], effect / _PER_CENT, say)
                done = True
            finally:
                switch_off(strategy)
                sides.finish("completed" if done else "interrupted")
    _show(bisected, [build.name for build in builds], as_json=as_json)
    if bisected.is_undecided or not (bisected.sure or bisected.first_bad is None):
        raise typer.Exit(UNCONFIRMED)


def releases_between(good: Path, bad: Path, board_type: str) -> list[Release]:
    """The releases for a board type, from good to bad.

    Their order is that of their writing.

    Raises:
        ConfigurationError: they are not in one folder in this order, or two have one name.
    """
    files = [path.resolve() for path in files_in(bad.resolve().parent)]
    if good.resolve() not in files or bad.resolve() not in files:
        raise ConfigurationError(f"{good} and {bad}: two release files of one folder are wanted, which end in .yaml")
    begin, end = files.index(good.resolve()), files.index(bad.resolve())
    if begin >= end:
        raise ConfigurationError(
            f"{bad} was not written after {good}: builds are searched in the order of their writing"
        )
    releases = [release for path in files[begin : end + 1] if board_type in (release := load(path)).boards]
    if len({release.name for release in releases}) < len(releases):
        raise ConfigurationError(f"two release files of {bad.parent} have the same name: name each build differently")
    return releases


@define
class BuildBoots(dict[str, BootRun]):
    """Build -> its boots; a build's run begins when it is first asked for."""

    store: Store
    strategy: Any
    env: Path
    first: Run
    _runs: dict[str, Run] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        runs = [self.first, *(run for run in self.store.runs(kind=BISECT) if run.plan.get("of") == self.first.id)]
        self._runs = {run.release: self.store.reopen_run(run.id) for run in runs}

    def __missing__(self, build: str) -> BootRun:
        if build not in self._runs:
            plan = {"cycles": MAX_CYCLES, "media": self.first.plan["media"], "of": self.first.id}
            self._runs[build] = begin_side(self.store, self.strategy, self.env, build, plan, BISECT)
        self[build] = boots_of(self.store, self._runs[build], self.strategy)
        return self[build]

    def finish(self, status: Any) -> None:
        """Close the builds' runs."""
        for run in self._runs.values():
            self.store.finish_run(run.id, status)


def _first(store: Store, strategy: Any, env: Path, builds: Sequence[str], metric: str, resume: int | None) -> Run:
    if resume is None:
        plan = {
            "cycles": MAX_CYCLES,
            "media": [strategy.medium],
            "seed": secrets.randbelow(2**31),
            "builds": list(builds),
            "metric": metric,
        }
        return begin_side(store, strategy, env, builds[0], plan, BISECT)
    run = store.run(resume)
    search = (BISECT, strategy.board, list(builds), [strategy.medium], metric)
    builds_then, media_then = list(run.plan.get("builds", [])), list(run.plan.get("media", []))
    if (run.kind, run.board, builds_then, media_then, run.plan.get("metric", "")) != search:
        raise ConfigurationError(
            f"run {resume} did not begin this search: give the same builds, environment, medium and metric again"
        )
    return run


def _show(result: BisectionResult, builds: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        echo_json(
            {
                **asdict(result),
                "first_bad": None if result.first_bad is None else builds[result.first_bad],
                "candidates": [builds[index] for index in result.candidates],
                "skipped": [builds[index] for index in result.skipped],
                "sure": result.sure,
            }
        )
        return
    if result.first_bad is None:
        title = "undecided, whether they differ" if result.is_undecided else "no difference to find"
        echo(f"{title}: {builds[-1]} is {_PER_CENT * result.change:+.2f} % against {builds[0]}, {result.pairs} pairs")
        return
    named = "first bad build" if result.sure else "not sure; the likeliest first bad build"
    echo(
        f"{named}: {builds[result.first_bad]} ({_PER_CENT * result.confidence:.0f} %); {builds[-1]} is "
        f"{_PER_CENT * result.change:+.2f} % against {builds[0]}, {result.pairs} pairs"
    )
    if len(result.candidates) > 1:
        echo(f"with 95 %: one of {', '.join(builds[index] for index in result.candidates)}")
    if not result.sure:
        much = ", too much to tell" if result.builds_differ else ""
        echo(f"the builds differ by some {_PER_CENT * result.spread:.2f} % for other reasons{much}")
    if result.skipped:
        echo(f"did not boot: {', '.join(builds[index] for index in result.skipped)}")
