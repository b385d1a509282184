"""`lab ab`: compare two releases on one board by pairs of boots, until it is decided."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from attrs import asdict, define, field

from lab.benchmarks.cycles import nothing_before_cycle
from lab.cli.options import BoardEnv, BootMedium, Database, Effect, Json, Wait
from lab.cli.provision import BootsReserved, hold, strategy_of, switch_off
from lab.env import envfile
from lab.errors import ConfigurationError
from lab.farm.runner import UNCONFIRMED
from lab.host import process
from lab.host.clock import MonotonicRaw
from lab.jobs.lease import open_results
from lab.jobs.records import BY_AB, Order
from lab.judge.paired import EFFECT, JITTER, PairedOutcome, PairedPlan
from lab.provision.history import ProvisionBook
from lab.provision.provisioning import ProgressPrinter, Provisioner
from lab.provision.release import Release
from lab.provision.releasefile import find
from lab.results import Run, Store
from lab.results.records import AB, LAST_ID
from lab.run.boot import BootRun
from lab.run.options import DEFAULT_RETRIES
from lab.run.pairs import BootPairs, PairedResult, compare, describe, temperatures
from lab.run.progress import Progress
from lab.run.provenance import collect
from lab.terminal import echo, echo_json, log_to

app = typer.Typer(help="Compare two releases on one board by pairs of boots, until it is decided.")
_PER_CENT = 100.0
_COOLING_S = 120.0


@app.command()
def ab(
    releases: Annotated[
        list[str] | None, typer.Argument(metavar="[A B]", help="Two release files; B is compared to A.")
    ] = None,
    *,
    env: BoardEnv,
    same: Annotated[
        bool, typer.Option("--same", help="Compare what is on the board with itself: this lab's own false alarms.")
    ] = False,
    slots: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--slots",
            metavar="COMMAND COMMAND",
            help="U-Boot commands that choose A and B on the medium: nothing is written.",
        ),
    ] = None,
    medium: BootMedium = "",
    effect: Effect = EFFECT * _PER_CENT,
    jitter: Annotated[
        float, typer.Option(min=0.05, max=20.0, metavar="PERCENT", help="Deviation of the board's boot times.")
    ] = JITTER * _PER_CENT,
    resume: Annotated[
        int | None, typer.Option(min=1, max=LAST_ID, metavar="RUN", help="Go on with the comparison of this run.")
    ] = None,
    wait: Wait = 0.0,
    ignore: BootsReserved = False,
    as_json: Json = False,
    db: Database = None,
) -> None:
    """Compare two releases by pairs of boots of a board's medium.

    Each change of the release writes the medium; the boot that compares it after writing does not count. Two slots
    need no writing.
    """
    log_to(sys.stderr)
    names = list(releases or [])
    if (same or slots) and (names or (same and slots)):
        raise ConfigurationError(
            "--same and --slots compare what is on the board: leave the releases and the other one out"
        )
    if not (same or slots) and len(names) != 2:
        raise ConfigurationError("give two release files, A and B, or --slots, or --same")
    path = envfile.find(env, Path.cwd())
    strategy = strategy_of(env)
    if medium:
        strategy.select_medium(medium)
    files = [find(text, strategy.type.name, Path.cwd()) for text in names]
    _require_two(files, strategy.medium)
    plan = PairedPlan.of(effect / _PER_CENT, jitter / _PER_CENT)
    with open_results(db, wait, say) as store:
        order = Order(strategy.type.name, strategy.board, (AB,), str(path), "", None, {})
        with hold(store, order, wait, ignore, BY_AB) as job:
            runs = _runs(store, strategy, path, files, plan, slots or ("", ""), resume)
            say(
                f"runs {runs[0].id} (A, {runs[0].release}) and {runs[1].id} (B, {runs[1].release}): at most "
                f"{2 * plan.pairs} boots of "
                f"{strategy.medium} find {effect:g} %; lab ab --resume {runs[0].id} goes on"
            )
            media = MediaSwitch(strategy, dict(zip("ab", files, strict=False)), ProvisionBook(store), job.id)
            sides = {"a": boots_of(store, runs[0], strategy), "b": boots_of(store, runs[1], strategy)}
            seed = int(runs[0].plan["seed"])
            differ = True if slots else False if same else None  # a release is proved when it is written
            pairs = BootPairs(
                sides, seed, strategy.medium, media.switch, alternates=bool(files), cool=media.cool, differ=differ
            )
            done = False
            try:
                strategy.check_lab()
                result = compare(pairs, plan, say)
                done = True
            finally:
                switch_off(strategy)
                for run in runs:
                    store.finish_run(run.id, "completed" if done else "interrupted")
        warmest = {
            side: range_c for side, run in zip("ab", runs, strict=True) if (range_c := temperatures(store, run))
        }
    _show(result, runs, warmest, as_json=as_json)
    if result.verdict.outcome is PairedOutcome.UNDECIDED:
        raise typer.Exit(UNCONFIRMED)


def _require_two(releases: list[Release], medium: str) -> None:
    """Refuse releases that are one.

    Raises:
        ConfigurationError: they have one name, or the same files for the medium.
    """
    if not releases:
        return
    first, second = releases
    if first.name == second.name:
        raise ConfigurationError(
            f"A and B are both called {first.name}, so neither is written over the other; rename one, or compare with "
            "--same"
        )
    digests = [
        [file.sha256 for file in release.media[medium].files] if medium in release.media else []
        for release in releases
    ]
    if digests[0] == digests[1] and digests[0] and all(digests[0]):
        raise ConfigurationError(
            f"{first.name} and {second.name} have the same files for {medium}: name another release, or compare with "
            "--same"
        )


@define
class MediaSwitch:
    """Puts a side's release on the board's medium.

    Attributes:
        files: side -> its release; empty: all are what is on the board.
        medium: of all sides; a failed write leaves the strategy at the medium that it booted from.
    """

    strategy: Any
    files: Mapping[str, Release]
    log: ProvisionBook
    job_id: int
    medium: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.medium = self.strategy.medium

    def switch(self, side: str) -> None:
        """Write the side's release, unless it is there.

        Raises:
            BoardlabError: it could not be written, or does not boot.
        """
        if not self.files:
            return
        release = self.files[side]
        there = self.log.current(self.strategy.board).get(self.medium)
        if there is not None and there.is_on_it and there.release == release.name:
            return
        putting = Provisioner(
            release, [self.medium], ProgressPrinter(say), say, self.log, job_id=self.job_id, person=process.person()
        )
        self.strategy.putting = putting
        self.strategy.off()
        self.strategy.transition("provisioned")

    def cool(self) -> None:
        """Leave the board off for a while."""
        say(f"the board throttles: it stays off for {_COOLING_S:.0f} s")
        self.strategy.off()
        time.sleep(_COOLING_S)


def _runs(
    store: Store,
    strategy: Any,
    env: Path,
    files: list[Release],
    plan: PairedPlan,
    slots: tuple[str, str],
    resume: int | None,
) -> tuple[Run, Run]:
    """The runs of A and of B: new ones, or those that are resumed.

    Raises:
        ConfigurationError: the run to be resumed is of another comparison.
    """
    names = [release.name for release in files]
    if not names:  # both sides measure what is on the board
        provision = ProvisionBook(store).current(strategy.board).get(strategy.medium)
        names = [provision.release if provision is not None and provision.is_on_it else "unreleased"] * 2
    if resume is not None:
        first = store.run(resume)
        comparison = (AB, strategy.board, names[0], plan.pairs, strategy.medium)
        if first.plan.get("side") != "a" or comparison != (
            first.kind,
            first.board,
            first.release,
            first.plan["cycles"],
            first.plan["media"][0],
        ):
            raise ConfigurationError(
                f"run {resume} is not side A of this comparison: give its releases, environment, medium, --effect and "
                "--jitter again"
            )
        other = next((run for run in store.runs(kind=AB) if run.plan.get("of") == resume), None)
        if (
            other is None
            or other.release != names[1]
            or tuple(r.plan.get("slot", "") for r in (first, other)) != slots
        ):
            raise ConfigurationError(f"run {resume} was compared with another release or slot than {names[1]}")
        return store.reopen_run(first.id), store.reopen_run(other.id)
    base: dict[str, Any] = {"cycles": plan.pairs, "media": [strategy.medium], "effect": plan.effect}
    seed = secrets.randbelow(2**31)
    first = begin_side(store, strategy, env, names[0], {**base, "side": "a", "seed": seed, "slot": slots[0]})
    return first, begin_side(store, strategy, env, names[1], {**base, "side": "b", "of": first.id, "slot": slots[1]})


def begin_side(store: Store, strategy: Any, env: Path, release: str, plan: Mapping[str, Any], kind: str = AB) -> Run:
    """Begin the run of one build."""
    provenance = collect(
        board_type=strategy.type,
        board=strategy.board,
        release=release,
        env=env,
        images={},
        clock=MonotonicRaw(),
        console=strategy.console.local_device,
        simulated=strategy.console.simulated,
    )
    return store.begin_run(kind, strategy.type.name, strategy.board, release, plan=plan, provenance=provenance)


def boots_of(store: Store, run: Run, strategy: Any) -> BootRun:
    """The boots of a build's run."""
    clock = MonotonicRaw()
    side = str(run.plan.get("side") or run.release)
    progress = Progress(lambda line: say(f"{side} {line}"), clock, int(run.plan["cycles"]))
    slot = str(run.plan.get("slot", ""))
    return BootRun(
        store, run, strategy, progress, clock, time.sleep, DEFAULT_RETRIES, nothing_before_cycle, at_uboot=slot
    )


def _show(
    result: PairedResult, runs: tuple[Run, Run], warmest: Mapping[str, tuple[float, float]], *, as_json: bool
) -> None:
    verdict = result.verdict
    if as_json:
        fields = {**asdict(verdict), "outcome": verdict.outcome.value}
        echo_json({"runs": [run.id for run in runs], **fields, "failed": dict(result.failed), "warmest_c": warmest})
        return
    echo(describe(verdict))
    if verdict.outcome is PairedOutcome.DIFFERENT:
        echo("a comparison that stops early estimates rather too much than too little: take the interval")
    for side, (low, high) in warmest.items():
        echo(f"{side.upper()} was {low:.1f} to {high:.1f} °C warm behind its prompts")
    for side, failed in result.failed.items():
        if failed:
            echo(f"{side.upper()} failed {failed} times")


def say(line: str) -> None:
    """Print a line of progress for a person."""
    echo(line, err=True)
