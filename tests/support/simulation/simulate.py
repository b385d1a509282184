"""One seed: a schedule, its invariants, its story."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from attrs import frozen

from lab.benchmarks.cycles import AWAY_S
from support.simulation.choices import Choices, shrunk
from support.simulation.database import Results
from support.simulation.farm import PERSON, Farm
from support.simulation.strikes import CUT_S, Strikes
from support.simulation.system import System, installed
from support.simulation.watch import Watch
from support.simulation.world import START_S, Host, ViolationError, World

CALMS_AFTER_S: Final = (60.0, 130.0, 260.0)  # behind this nothing is struck, so that everything can end
LONGEST_S: Final = (
    700.0  # in which each strike is over, and what it left is mended: a jump of a clock, a lease, a quarantine
)
RATES: Final = (0.0, 0.01, 0.03, 0.08)
BOOTS_S: Final = (4.0, 20.0, 45.0)
PATIENCES_S: Final = (AWAY_S, 0.0)  # that of a measuring program, and one that each outage outlasts
STAYS: Final = (4.0, 0.5, 20.0)


@frozen
class Outcome:
    """The outcome of a schedule.

    Attributes:
        name: of the invariant that broke; empty: none. seen: what was seen then.
        taken: the decisions. trace: the story, line by line. felt: how often each strike had an effect.
    """

    name: str
    seen: str
    taken: Sequence[int]
    trace: Sequence[str]
    steps: int
    felt: Counter[str]


def simulate(results: Results, choices: Choices) -> Outcome:
    """Run a schedule to its end, or to the first violation."""
    world = World(choices, hidden=(f"{results.folder}/", str(results.folder), results.location.tag))
    farm = Farm(world, results)
    name = seen = ""
    try:
        with installed(system := System(world, farm.spawn, results)):
            farm.system = system
            _befall(farm)
            farm.prepare()
            world.strikes = Strikes(farm).draw()
            results.begin(world, history=any(wish.judged for wish in farm.wishes))
            if not world.is_calm:
                _aim(farm)
            farm.watch = watch = Watch(world, results, farm)
            world.checks.append(watch.look)
            desk = Host("a desk")
            if farm.places is not None:
                world.start(f"{PERSON} for the janitor", desk, lambda: farm.keep_janitor(world.hosts[0]))
            for wish in farm.wishes:
                world.start(f"{PERSON} for {wish.label}", desk, lambda wish=wish: farm.operate(wish))
            world.run(lambda: _is_over(farm))
            watch.finish()
    except ViolationError as error:
        name, seen = error.name, str(error)
    finally:
        _bury(world)
        results.end()
    return Outcome(name, seen, choices.taken, world.trace, world.steps, world.felt)


def _befall(farm: Farm) -> None:
    """Hosts, and their strikes, by the schedule."""
    world, pick = farm.world, farm.world.choices.pick
    count = 1 + pick((1.0, 3.0))
    for number in range(count):
        skew = (0.0, 1200.0, -1200.0, 180.0)[pick((1.0, 1.0, 1.0, 1.0))]
        world.hosts.append(Host(f"lab-{number + 1}", wall_s=skew, monotonic_s=1e4 * number))
    farm.results.is_server = count > 1 or pick((1.0, 1.0)) == 1
    world.stay = STAYS[pick((1.0, 1.0, 1.0))]
    world.strike_rate = RATES[pick((0.5, 3.0, 3.0, 2.0))]
    if not world.strike_rate:
        world.calm_from_s = 0.0
    farm.calm_after_s = CALMS_AFTER_S[pick((2.0, 2.0, 1.0))]
    farm.boot_s = BOOTS_S[pick((2.0, 1.0, 1.0))]
    farm.results.patience_s = PATIENCES_S[pick((1.0, 1.0))]


def _aim(farm: Farm) -> None:
    """Strike the commits behind which this farm can be hurt."""
    results, pick = farm.results, farm.world.choices.pick
    if farm.unconfirming:  # so that what it left open is taken up again
        results.deaths["jobs.done"] += pick((1.0, 3.0))
    elif farm.slower:  # so that the next program tells what this one found
        (suites,) = (wish.suites for wish in farm.wishes if wish.slower)
        results.deaths["jobs.done" if len(suites) > 1 else "jobs.finished_at"] += pick((1.0, 3.0))
        farm.calm_after_s = CALMS_AFTER_S[-1]  # for that commit is late
    if farm.worn:  # so that what was lost is found by the next program
        results.deaths["provisions.digest"] += pick((1.0, 4.0))
    if not results.patience_s and pick((3.0, 1.0)):  # so that a run stays open
        results.outages["runs.finished_at"].append(CUT_S[2])


def _is_over(farm: Farm) -> bool:
    world = farm.world
    if world.strike_rate and world.now_s > START_S + farm.calm_after_s:
        world.strike_rate = 0.0
        farm.results.calm()
        if farm.places is not None:
            farm.places.calm()
        world.calm_from_s = world.now_s + LONGEST_S
    return not world.living()


def _bury(world: World) -> None:
    """End what still lives when a schedule is over."""
    for process in world.living():
        world.kill(process)
    world.checks.clear()
    world.reap()


def story(results: Results, taken: Sequence[int], name: str) -> Outcome:
    """The same violation with as few decisions as it needs."""

    def fails(tried: Sequence[int]) -> bool:
        return simulate(results, Choices(None, tried)).name == name

    return simulate(results, Choices(None, shrunk(taken, fails)))


@contextmanager
def hushed() -> Iterator[None]:
    """Boardlab's warnings are no news here."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
