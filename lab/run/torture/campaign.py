"""Many cases, on all processors that we may use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from threading import Thread

from attrs import frozen

from lab.run.torture.boot import GoodBoot
from lab.run.torture.judgement import Case, rewatcher, try_case

TOGETHER = 50  # cases that a process takes at a time


@frozen
class Lot:
    """Cases of one kind with consecutive seeds."""

    kind: str
    seeds: range


def lots(kinds: Sequence[str], count: int, seed: int) -> list[Lot]:
    """`count` cases of each kind, in lots that are done together."""
    stop = seed + count
    return [
        Lot(kind, range(first, min(first + TOGETHER, stop))) for kind in kinds for first in range(seed, stop, TOGETHER)
    ]


def run(
    boot: GoodBoot, todo: Sequence[Lot], processes: int = 0, done: Callable[[int], None] | None = None
) -> list[Case]:
    """Try all cases, in their order.

    Args:
        processes: how many at a time; 0: one for each processor; 1: in this one.
        done: is told after each lot how many cases it had.
    """
    cases: list[Case] = []
    for tried in _tried(boot, todo, processes or len(os.sched_getaffinity(0))):
        cases += tried
        if done is not None:
            done(len(tried))
    return cases


def _tried(boot: GoodBoot, todo: Sequence[Lot], processes: int) -> Iterator[list[Case]]:
    if processes == 1:
        yield from (_try(boot, lot) for lot in todo)
        return
    waiting = iter(todo)
    with ProcessPoolExecutor(processes, mp_context=get_context("forkserver"), initializer=_end_with_parent) as pool:
        running = [pool.submit(_try, boot, lot) for lot in islice(waiting, 2 * processes)]
        while running:
            yield running.pop(0).result()
            running += [pool.submit(_try, boot, lot) for lot in islice(waiting, 1)]


def _end_with_parent() -> None:
    """Whoever kills the command ends its processes too: they would wait for more for ever."""

    def watch(sentinel: int) -> None:
        wait([sentinel])
        os._exit(1)

    parent = parent_process()
    if parent is not None:
        Thread(target=watch, args=(parent.sentinel,), daemon=True).start()


def _try(boot: GoodBoot, lot: Lot) -> list[Case]:
    watcher = rewatcher(boot)
    return [try_case(boot, watcher, lot.kind, seed) for seed in lot.seeds]
