"""Computer of a simulated board: shared state of its programs.

It lives from power-on to power-off.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Protocol

from attrs import define, field

from lab.virtual.sim.machine import Machine, Task
from lab.virtual.sim.model import Model, model
from lab.virtual.sim.network import NoNetwork, TftpClient
from lab.virtual.sim.program import CpuResetError, Hear, Interruption, Pause, Program, Say, Typed
from lab.virtual.sim.script import ScriptLine, printed_ns
from lab.virtual.sim.setup import DEFAULT, SimSetup
from lab.virtual.sim.storage import Storage
from lab.virtual.sim.timing import Durations, dice, draw
from lab.virtual.sim.usb import UsbPort

PIECE_BYTES = 32  # bytes that a process hands to the tty at once; the kernel's own lines may come between two of them


class KernelLog(Protocol):
    """Log, counters and settings of the kernel."""

    taint: int
    settings: dict[str, str]
    suspend_stats: dict[str, int]

    def printk(self, text: str, level: int = 6, facility: int = 0) -> Program[None]:
        """Log a line now, and print it on the console."""
        ...

    def hold_clock_for(self, ns: int) -> None:
        """Its clock stood still for that long."""
        ...

    def fail_device(self, step: str, device: str) -> None:
        """Count a device that failed in this step."""
        ...


class Hooks(Protocol):
    """Changes of a running computer by faults (`lab.virtual.sim.faulthooks.FaultHooks`)."""

    def at(self, point: str, computer: Computer) -> Program[None]:
        """The board has come to this point."""
        ...

    def medium(self, medium: str, computer: Computer) -> str:
        """The medium that the ROM finds; empty: none."""
        ...

    def durations(self, drawn: Durations) -> Durations:
        """Durations of this start's stages."""
        ...

    def initcall_ns(self, name: str) -> int:
        """Time by which an initcall of the kernel takes longer."""
        ...

    def unit_ns(self, name: str) -> int:
        """The same of a unit of systemd."""
        ...

    def root(self, medium: str, computer: Computer) -> str:
        """The medium whose root file system the kernel mounts."""
        ...

    def refuses(self, command: str) -> str:
        """Error text of a refused command; empty: it is not refused."""
        ...

    def interruption(self, command: str) -> Interruption | None:
        """Early end of a command; None: it does all its work."""
        ...

    def printk(self, line: str) -> str:
        """Console text of a kernel log line; empty: nothing."""
        ...

    def protects(self, medium: str) -> bool:
        """Return whether a medium's write protection is on."""
        ...

    def capacity(self, medium: str, size: int) -> int:
        """Real number of bytes of a medium."""
        ...

    def spoils(self, medium: str, offset: int, size: int) -> bool:
        """Return whether these bytes of a medium cannot be written."""
        ...

    def garbles_written(self, medium: str, offset: int, size: int) -> Sequence[int]:
        """Offsets of bytes that are written wrong without an error.

        They count from `offset`.
        """
        ...

    def garbles_read(self, medium: str, offset: int, size: int) -> Sequence[int]:
        """Indices of the wrong bytes of a read."""
        ...

    def keeps(self, register: int, old: int, new: int) -> int:
        """Value of an eMMC's register after a write."""
        ...

    def fetches(self, path: str) -> bool:
        """Return whether the network answers U-Boot's request for a file."""
        ...

    def fetched(self, path: str, data: bytes) -> bytes:
        """The file that came instead."""
        ...

    def network_rate(self, bytes_s: float) -> float:
        """Rate of a download."""
        ...


@define(eq=False)
class Computer:
    """One power cycle of a board.

    Attributes:
        straps: the boot-mode pins as the ROM reads them.
        cycle: number of this power on, from 1.
        time_scale: factor on all waiting but that for the UARTs; 1 is the real board's pace.
        troubles: the faults at work in this cycle.
        main: the task of the board's own program.
        kernel: the log of the kernel that runs, or ran last.
        note: takes a line for the truth log.
        setup: how the board was set up.
        storage: what survives power cycles.
        usb: its USB device port.
        network: what its Ethernet port is plugged into.
        medium: what it boots from, once the ROM has decided.
        loader: how SPL calls what it is loaded from, where that is no medium: "UART" or "DFU".
        missing_media: media that are not plugged in, or do not answer.
        starts: how often it began to boot.
        stage: where it is, in one word.
        wakes_in_ns: how long it will sleep at most.
        locked: nobody can log in.
        spared_ns: how much longer its work would have taken at the real board's pace.
        wall_jump_s: by how much the wall clock was stepped.
        sleep: the low-power mode that it enters or is in; a fault may change it on the way, or clear it to refuse.
        refused_by: the kind of line that a refusal has: "freezer", "cpu", "device" or "wakeup".
        firmware_mode: the number of the mode that the firmware reports; None: that of `sleep`.
        signal: takes whether its application is ready: a pin, a CAN frame and the network show it.
        memory: files in its memory, by path; a boot begins with none.
        rtc: wall clock that the RTC had at an instant (s, ns), kept over a boot; None: it starts anew.
    """

    model: Model
    machine: Machine
    storage: Storage
    seed: int
    cycle: int
    straps: int
    time_scale: float
    troubles: Sequence[Hooks]
    note: Callable[[str], None]
    setup: SimSetup = DEFAULT
    signal: Callable[[bool], None] = lambda _ready: None
    usb: UsbPort = field(factory=UsbPort)
    network: TftpClient = field(factory=NoNetwork)
    main: Task | None = field(default=None, init=False)
    kernel: KernelLog | None = field(default=None, init=False)
    medium: str = field(default="", init=False)
    loader: str = field(default="", init=False)
    missing_media: set[str] = field(factory=set, init=False)
    starts: int = field(default=0, init=False)
    stage: str = field(default="off", init=False)
    sleep: str = field(default="", init=False)
    refused_by: str = field(default="device", init=False)
    firmware_mode: int | None = field(default=None, init=False)
    wakes_in_ns: int | None = field(default=None, init=False)
    memory: dict[str, bytes] = field(factory=dict, init=False)
    rtc: tuple[float, int] | None = field(default=None, init=False)
    locked: bool = field(default=False, init=False)
    wall_jump_s: float = field(default=0.0, init=False)
    spared_ns: int = field(default=0, init=False)
    durations: Durations = field(init=False)

    @property
    def console(self) -> str:
        """The name of the console's UART."""
        return self.model.board.console.name

    @property
    def now_ns(self) -> int:
        """The machine's time."""
        return self.machine.now_ns

    def dice(self, *what: object) -> random.Random:
        """A source of chance for one purpose in this cycle."""
        return dice(self.seed, self.cycle, *what)

    def select_medium(self) -> bool:
        """Read the pins and draw durations; False: no medium."""
        media = [name for name, medium in self.model.board.media.items() if medium.boot_mode == self.straps]
        self.medium = media[0] if media else ""
        for trouble in self.troubles:
            self.medium = trouble.medium(self.medium, self)
        if not self.medium:
            return False
        self.draw_durations()
        return True

    def run_software(self, release: str) -> None:
        """Continue with software of this release."""
        if release != self.model.release_name:
            self.model = model(self.model.board.name, release)

    def draw_durations(self) -> None:
        """Draw the durations of this start's stages."""
        source = self.dice("durations", self.starts) if self.starts else self.dice("durations")
        self.starts += 1
        self.durations = draw(self.model.release, self.medium, self.model.profile, source)
        for trouble in self.troubles:
            self.durations = trouble.durations(self.durations)

    def facts(self) -> dict[str, object]:
        """Variables of the firmware's texts."""
        return {
            **self.model.facts(),
            "setup": self.setup,
            "medium": self.medium,
            "spl_medium": self.loader or self.model.spl_medium(self.medium),
            "tee": self.setup.tee_talks or self.model.release.device == "GP",
        }

    def enter(self, stage: str, planned_ns: int | None = None) -> None:
        """Enter a stage; `planned_ns` is its duration without faults."""
        self.stage = stage
        planned = "" if planned_ns is None else f" planned_ns={planned_ns}"
        self.note(f"cycle={self.cycle} stage={stage}{planned}")

    def reset(self) -> None:
        """The processor resets, whatever it is doing (a watchdog)."""
        if self.main is not None:
            self.machine.interrupt(self.main, CpuResetError())

    def at(self, point: str) -> Program[None]:
        """A point at which faults may take over."""
        for trouble in self.troubles:
            yield from trouble.at(point, self)

    def pause(self, ns: float) -> Program[None]:
        """Work that long, as far as time_scale allows."""
        self.spare(ns)
        yield Pause(round(ns * self.time_scale))

    def spare(self, ns: float) -> None:
        """Work of that length was shortened by time_scale."""
        self.spared_ns += round(ns) - round(ns * self.time_scale)

    def say(self, text: str, uart: str | None = None) -> Program[None]:
        """Print with carriage returns; wait until the UART took it."""
        if text:
            yield Say(uart or self.console, text.replace("\n", "\r\n").encode())

    def hear(self, timeout_ns: int | None = None) -> Program[Typed | None]:
        """The next byte on the console."""
        return (yield Hear((self.console,), timeout_ns))

    def wait_until(self, due_ns: int) -> Program[None]:
        """Do nothing until then; time_scale does not apply."""
        if due_ns > self.now_ns:
            yield Pause(due_ns - self.now_ns)

    def play(
        self,
        lines: Sequence[ScriptLine],
        total_ns: int,
        log: KernelLog | None = None,
        behind: Mapping[str, Program[None]] | None = None,
    ) -> Program[None]:
        """Print the lines of a text, the last one after `total_ns`.

        The lines' own time on the UART is taken off; the rest is work, spread by weight. A stage that is planned
        shorter than its own printing takes as long as that. When something holds it up, all that follows comes later by
        as much.

        Args:
            behind: beginning of a line -> program behind it.
        """
        speed_bd = self.machine.speed_bd[self.console]
        work_ns = max(0, total_ns - printed_ns(lines, speed_bd)) * self.time_scale
        weights = list(accumulate(line.weight for line in lines))
        whole = weights[-1] if lines and weights[-1] else 1.0
        start_ns, before_ns = self.now_ns, 0
        for line, weight in zip(lines, weights, strict=True):
            due_ns = start_ns + before_ns + round(work_ns * weight / whole)
            if due_ns > self.now_ns:
                yield from self.wait_until(due_ns)
            else:
                start_ns += self.now_ns - due_ns
            if line.point:
                yield from self.at(line.point)
                continue
            before_ns += printed_ns([line], speed_bd)
            if line.kernel and log is not None:
                yield from log.printk(line.text)
            elif log is None:
                yield from self.say(line.text + "\n")
            else:
                yield from self.write(line.text.encode() + b"\n")
            for beginning, program in (behind or {}).items():
                if line.text.startswith(beginning):
                    yield from program
        yield from self.wait_until(start_ns + before_ns + round(work_ns))

    def printk(self, *lines: str, level: int = 6) -> Program[None]:
        """The kernel logs these lines; before there is one nothing happens.

        Args:
            level: syslog's; smaller is more urgent.
        """
        if self.kernel is not None:
            for line in lines:
                yield from self.kernel.printk(line, level)

    def set_speed(self, speed_bd: int) -> None:
        """The console changes its speed, on both sides."""
        self.machine.set_speed(self.console, speed_bd)

    def echo(self, data: bytes) -> Program[None]:
        """Send typed bytes back as they are."""
        yield Say(self.console, data)

    def write(self, data: bytes) -> Program[None]:
        """Output of a process: piece by piece, with others between."""
        data = data.replace(b"\n", b"\r\n")
        for start in range(0, len(data), PIECE_BYTES):
            yield Say(self.console, data[start : start + PIECE_BYTES])
