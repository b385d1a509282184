"""What bench/chaos.py does to a lab: kills, stops, pulls, fills and refuses, by chance from one seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import psutil
from attrs import define, field, frozen
from chaos_disk import Disk
from chaos_lab import ChaosLab
from chaos_sessions import Operator
from chaos_switch import Mood, Switch

FREEZE_S = (0.1, 5.0)
AWAY_S = (0.2, 4.0)  # an adapter; the console driver waits three seconds for it
FULL_S = (0.2, 6.0)
SPARE_BYTES = (0, 1 << 17)
MOOD_S = (0.3, 8.0)
HANGING_S = (0.5, 45.0)  # pdudaemon is waited for half a minute
RESTART_S = (0.0, 3.0)
STRIKE_TRIES = 5
UNPLUG_AT = (
    "spl.load",
    "tfa",
    "uboot.start",
    "uboot.load",
    "kernel.start",
    "kernel.middle",
    "init",
    "user.middle",
    "login",
)


@define
class Havoc:
    """A lab and the chance that strikes it. Each strike returns what it did to what, or "" when there was nothing to strike."""

    lab: ChaosLab
    operators: Sequence[Operator]
    chance: Random
    done: dict[str, int] = field(factory=dict, init=False)
    _untried: list[StrikeKind] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._untried = self.chance.sample(KINDS, len(KINDS))

    def strike(self) -> str:
        """Do one thing, in words: at first each kind once, then by their weights."""
        for _ in range(STRIKE_TRIES):
            kind = self._untried.pop() if self._untried else self._any()
            try:
                what = kind.action(self)
            except psutil.NoSuchProcess:  # it has just ended by itself
                what = ""
            if what:
                self.done[kind.name] = self.done.get(kind.name, 0) + 1
                return f"{kind.name}: {what}"
            if kind.name not in self.done:
                self._untried.insert(0, kind)  # nothing there to strike; later
        return ""

    def _any(self) -> StrikeKind:
        (kind,) = self.chance.choices(KINDS, weights=[kind.weight for kind in KINDS])
        return kind

    def kill_pytest(self) -> str:
        """kill -9 of a board's pytest."""
        return self._kill(self._one("pytest", "/env/"))

    def kill_lab_run(self) -> str:
        """kill -9 of a board's `lab run`."""
        measuring = [o.process for o in self.operators if o.way == "lab run" and o.process is not None]
        alive = [process for process in measuring if process.poll() is None]
        return self._kill(psutil.Process(self.chance.choice(alive).pid) if alive else None)

    def kill_console_server(self) -> str:
        """kill -9 of the console server of all boards."""
        return self._kill(self._one("lab.console.server"))

    def kill_pdudaemon(self) -> str:
        """kill -9 of pdudaemon."""
        return self._kill(self._one("pdudaemon.conf"))

    def kill_bench(self) -> str:
        """kill -9 of the bench: all adapters and switches of the lab are gone, and come back after a while."""
        pause_s = self.chance.uniform(*RESTART_S)
        what = self._kill(self._one("lab.virtual.bench"))
        if what:
            self.lab.bench_was_killed(pause_s)
        return what

    def stop_console_server(self) -> str:
        """SIGSTOP of the console server."""
        return self._freeze(self._one("lab.console.server"))

    def stop_bench(self) -> str:
        """SIGSTOP of the bench: boards, adapters and switches stand still."""
        return self._freeze(self._one("lab.virtual.bench"))

    def stop_pytest(self) -> str:
        """SIGSTOP of a board's pytest."""
        return self._freeze(self._one("pytest", "/env/"))

    def unplug(self) -> str:
        """A console's adapter goes away in the middle of the next boot, and comes back, perhaps under another number."""
        fault = self.chance.choice(("adapter_lost", "adapter_renumbered"))
        where, seconds = self.chance.choice(UNPLUG_AT), self.chance.uniform(*AWAY_S)
        return self._fault({"fault": fault, "cycles": "next", "at_point": where, "seconds": f"{seconds:.2f}"})

    def bad_outlet(self) -> str:
        """An outlet does not obey at the next power-on."""
        fault = self.chance.choice(("pdu_error", "pdu_connection_refused", "pdu_lies", "no_power"))
        return self._fault({"fault": fault, "cycles": "next"})

    def fill_recordings(self) -> str:
        """The disk of the recordings is full for a while."""
        return self._fill(self.lab.recordings)

    def fill_results(self) -> str:
        """The disk of the results is full for a while."""
        return self._fill(self.lab.results)

    def bad_switch(self) -> str:
        """The power switch refuses connections, hangs or fails for a while."""
        return self._upset(self.lab.pdu)

    def bad_straps(self) -> str:
        """The strap relays refuse connections, hang or fail for a while."""
        return self._upset(self.lab.straps)

    def _one(self, *words: str) -> psutil.Process | None:
        found = [process for process in self.lab.processes(*words) if process not in self.lab.frozen]
        return self.chance.choice(sorted(found, key=lambda process: process.pid)) if found else None

    def _kill(self, process: psutil.Process | None) -> str:
        if process is None:
            return ""
        process.kill()
        return f"pid {process.pid}"

    def _freeze(self, process: psutil.Process | None) -> str:
        seconds = self.chance.uniform(*FREEZE_S)
        if process is None:
            return ""
        self.lab.freeze(process, seconds)
        return f"pid {process.pid} for {seconds:.2f} s"

    def _fault(self, words: dict[str, str]) -> str:
        board = self.chance.choice(self.lab.boards)
        heard = self.lab.fault(board, words)
        return f"{board}: {', '.join(words.values())}" if heard else ""

    def _fill(self, disk: Disk) -> str:
        seconds, spare = self.chance.uniform(*FULL_S), self.chance.randint(*SPARE_BYTES)
        if disk.full:
            return ""
        disk.fill(spare)
        self.lab.later(seconds, disk.empty)
        return f"{spare} bytes left for {seconds:.2f} s"

    def _upset(self, switch: Switch) -> str:
        moods: tuple[Mood, ...] = ("refusing", "hanging", "failing")
        mood = self.chance.choice(moods)
        seconds = self.chance.uniform(*(HANGING_S if mood == "hanging" else MOOD_S))
        if switch.mood != "well":
            return ""
        switch.become(mood)
        self.lab.later(seconds, lambda: switch.become("well"))
        return f"{mood} for {seconds:.2f} s"


@frozen
class StrikeKind:
    """A kind of strike, and how often it comes beside the others."""

    name: str
    weight: float
    action: Callable[[Havoc], str]


KINDS = (
    StrikeKind("kill pytest", 3.0, Havoc.kill_pytest),
    StrikeKind("kill lab run", 2.0, Havoc.kill_lab_run),
    StrikeKind("kill console server", 1.0, Havoc.kill_console_server),
    StrikeKind("kill pdudaemon", 1.0, Havoc.kill_pdudaemon),
    StrikeKind("kill bench", 0.5, Havoc.kill_bench),
    StrikeKind("stop console server", 2.0, Havoc.stop_console_server),
    StrikeKind("stop bench", 2.0, Havoc.stop_bench),
    StrikeKind("stop pytest", 2.0, Havoc.stop_pytest),
    StrikeKind("adapter unplugged", 2.0, Havoc.unplug),
    StrikeKind("outlet does not obey", 1.0, Havoc.bad_outlet),
    StrikeKind("recordings' disk full", 1.0, Havoc.fill_recordings),
    StrikeKind("results' disk full", 1.0, Havoc.fill_results),
    StrikeKind("power switch refuses, hangs, fails", 1.0, Havoc.bad_switch),
    StrikeKind("straps refuse, hang, fail", 1.0, Havoc.bad_straps),
)
