"""Runs that Buildbot has queued, while whatever carries them is killed: each is done or failed with a class, and nothing is counted twice or left.

The short form is 20 runs on 4 boards. BOARDLAB_CHAOS_RUNS, BOARDLAB_CHAOS_BOARDS and BOARDLAB_CHAOS_SEED say otherwise.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from attrs import define, field
from support.buildbot_farm import BuildbotFarm, running_farm
from support.chaosruns import Deck, look, progress

from lab.farm import config
from lab.results import open_store

pytestmark = pytest.mark.soak

RUNS = int(os.environ.get("BOARDLAB_CHAOS_RUNS", "20"))
BOARDS = int(os.environ.get("BOARDLAB_CHAOS_BOARDS", "4"))
SEED = int(os.environ.get("BOARDLAB_CHAOS_SEED", "0")) or random.randrange(1, 2**31)
CYCLES = 2
CHANCE = 0.8  # of a kill once something has gone on since the last one: a slow machine is killed more slowly
KILLS = 2 * RUNS  # then the havoc ends, so that the test does
TICK_S = 0.2
BOUND_S = 120.0 * RUNS
SERVICES = ("worker", "buildbot", "console", "boards", "exporter")  # boards: the bench, and its power switch's daemon
COMMANDS = {"lab run": "lab run --continue", "pytest": "-m pytest ", "pdudaemon": "bin/pdudaemon --conf"}
KINDS = (*SERVICES, *COMMANDS)


@define
class Havoc:
    """Kills one thing after another.

    Attributes:
        folder: what has it in its environment is the farm's. done: victim -> how often.
    """

    farm: BuildbotFarm
    folder: Path
    chance: random.Random
    deck: Deck
    done: Counter[str] = field(factory=Counter)

    def strike(self) -> None:
        """Kill what is next, if it is there."""
        victim = self.deck.draw()
        pids = [self.farm.pid(victim)] if victim in SERVICES else self._running(COMMANDS[victim])
        try:
            os.kill(self.chance.choice([pid for pid in pids if pid]), signal.SIGKILL)
        except (IndexError, ProcessLookupError):  # none is there, or it ended just now
            self.deck.put_back(victim)
        else:
            self.done[victim] += 1

    def _running(self, words: str) -> list[int]:
        return [pid for pid, command in processes_of(self.folder).items() if words in command]


def processes_of(folder: Path) -> dict[int, str]:
    """Those of the farm, by their environment, with their command lines; not those that ended meanwhile."""
    found = {}
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if each.pid != os.getpid() and any(str(folder) in value for value in each.environ().values()):
                found[each.pid] = " ".join(each.cmdline())
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    assert processes_of(tmp_path / ".lab") == {}, "no process is left"


def test_every_run_ends_with_exact_counts(folder: Path) -> None:
    print(f"seed {SEED}: {RUNS} runs on {BOARDS} boards")  # noqa: T201 - to be given again
    with running_farm(folder, BOARDS, 0.02, attempts=KILLS) as farm:
        chance = random.Random(SEED)
        havoc = Havoc(farm, folder, chance, Deck(KINDS, chance))
        farm.log_in()
        wanted = {}
        for number in range(RUNS):
            board = f"am62xx_sk-{number % BOARDS + 1}"
            order = {"cycles": CYCLES, "medium": "sd", "release": f"chaos-{number}"}
            _, requests = farm.measure(board, **order)["result"]
            (wanted[f"chaos-{number}"],) = map(int, requests.values())
        deadline, seen, database = time.monotonic() + BOUND_S, 0, config.load(farm.desk.file).database
        ended: dict[str, int] = {}
        while len(ended) < RUNS:
            assert time.monotonic() < deadline, f"not ended: {sorted(wanted.keys() - ended.keys())}"
            with open_store(database) as store:
                now = progress(store)
            if now > seen and havoc.done.total() < KILLS:
                seen = now
                if havoc.chance.random() < CHANCE:
                    havoc.strike()
            ends = {name: farm.end_of(wanted[name]) for name in wanted.keys() - ended.keys()}
            ended |= {name: end for name, end in ends.items() if end is not None}
            time.sleep(TICK_S)
        with open_store(database) as store:
            counts = look(store, ended, CYCLES)
        print(f"kills: {havoc.done.total()} {dict(havoc.done)}; runs: {dict(counts)}")  # noqa: T201 - what was done
        assert havoc.done.keys() == set(KINDS) or havoc.done.total() < 3 * len(KINDS), "each of them is killed"
        assert havoc.done.total() > 0
