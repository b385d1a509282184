"""A lab in a guest: simulated boards of this host on the kernel's adapters, straps on gpio-sim, rails on i2c-stub.

What a board prints goes through the emulated adapter's USB transfers, ftdi_sio and the tty to the console server; the
straps that labgrid sets reach the board, and its power reaches the monitors' registers.
"""

from __future__ import annotations

import base64
import os
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import yaml
from attrs import define, evolve, field, frozen

from lab import boards
from lab.host.clock import MonotonicRaw
from lab.results import Attempt, open_store
from lab.virtual import straps
from lab.virtual.state import ENV
from lab.virtual.truth_log import Note
from support.chaos_verdict import Timed, boot_times
from support.driver_guest import Guest, running
from support.virtual_bench import BenchProcess, running_bench

TYPE: Final = "am62xx_sk"
MONITORS: Final = {  # rail -> address of its monitor and shunt, as on the SK-AM62-LP
    "vdd_core": (0x40, 2.0),
    "soc_dvdd_3v3": (0x4C, 10.0),
    "soc_dvdd_1v8": (0x45, 10.0),
    "vdda_1v8": (0x4E, 10.0),
    "vdd_ddr4": (0x46, 10.0),
}
DRIVER_MOHM: Final = 10.0  # what ina2xx divides by without a device tree
STEP_A: Final = 0.25e-3  # of the current register, by the driver's shunt
STRANGER: Final = b"\r\nStarting kernel ...\r\nstranger-evm login: \r\nroot@stranger-evm:~# "
GUEST_ENV: Final = "/tmp/am62x.yaml"  # noqa: S108 - the guest's
PAUSE_S: Final = 0.05
HELPERS: Final = """
import base64, contextlib, glob, os, sqlite3, subprocess, sys, time
from pathlib import Path
import pytest, pyudev
from smbus2 import SMBus
import labgrid.pytestplugin
import lab.drivers, lab.pytest_plugin.board

(bus,) = [path for path in Path('/sys/bus/i2c/devices').glob('i2c-*') if 'stub' in (path / 'name').read_text()]
wire = SMBus(int(bus.name.removeprefix('i2c-')), force=True)

def swapped(value):
    return value >> 8 | (value & 0xFF) << 8

def set_rails(registers):
    for address, values in registers:
        for register, value in values:
            wire.write_word_data(address, register, swapped(value))

def probe(addresses):
    for address in addresses:
        (bus / 'new_device').write_text(f'ina231 {address:#x}')

def adapters(count):
    while True:
        ttys = pyudev.Context().list_devices(subsystem='tty')
        serials = {tty['ID_SERIAL_SHORT']: dict(tty.properties) for tty in ttys if 'ID_SERIAL_SHORT' in tty.properties}
        if len(serials) == count:
            return serials
        time.sleep(0.1)

class Session:
    # pytest in a copy of this process: importing takes a minute
    def __init__(self, words):
        self.status = None
        self.pid = os.fork()
        if not self.pid:
            try:
                os.setsid()
                log = os.open('/tmp/session.log', os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                for descriptor in (1, 2):
                    os.dup2(log, descriptor)
                os.chdir('/tmp')
                os.environ.update(LAB_DB='sqlite:////tmp/results.db', BOARDLAB_RUNTIME='/tmp/run')
                self.status = int(pytest.main(words))
            finally:
                os._exit(99 if self.status is None else self.status)

    def poll(self):
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if pid else None
        return self.status

def forward(port):
    # The bench answers to its own name alone.
    listen = f'TCP-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr'
    subprocess.Popen(['socat', listen, f'TCP:10.0.2.2:{port}'])

def make_lines(levels):
    count = len(levels)
    chip = Path('/sys/kernel/config/gpio-sim/straps')
    (chip / 'bank').mkdir(parents=True)
    (chip / 'bank' / 'num_lines').write_text(str(count))
    (chip / 'live').write_text('1')
    gpiochip = (chip / 'bank' / 'chip_name').read_text().strip()
    folder = Path('/sys/devices/platform', (chip / 'dev_name').read_text().strip(), gpiochip)
    (base,) = Path('/sys/class/gpio').glob('gpiochip*/base')
    outputs = [Path(f'/sys/class/gpio/gpio{int(base.read_text()) + line}') for line in range(count)]
    for output, level in zip(outputs, levels):
        Path('/sys/class/gpio/export').write_text(output.name.removeprefix('gpio'))
        (output / 'direction').write_text(level)
    return [folder / f'sim_gpio{line}' / 'value' for line in range(count)], [str(path / 'value') for path in outputs]
"""


@define(eq=False)
class Cable:
    """The line between a board's UART and the guest's adapter.

    Attributes:
        uart: descriptor of the bench's pty; None: a stranger's board, which prints `STRANGER` all the time.
        typed: what reached the stranger.
    """

    name: str
    serial: str
    port: str
    uart: int | None
    line: socket.socket | None = None
    typed: bytearray = field(factory=bytearray)
    _due_s: float = 0.0

    def carry(self) -> None:
        """Hand on what is there; without an adapter it is lost."""
        data, line, now_s = b"", self.line, time.monotonic()
        if self.uart is not None:
            with suppress(BlockingIOError):
                data = os.read(self.uart, 4096)
        elif now_s >= self._due_s:
            data, self._due_s = STRANGER, now_s + PAUSE_S
        if line is None:
            return
        with suppress(OSError):  # full, or just unplugged
            line.send(data)
        with suppress(OSError):
            typed = line.recv(4096)
            if self.uart is None:
                self.typed += typed
            else:
                os.write(self.uart, typed)


@define(eq=False)
class GuestLab:
    """A guest whose adapters end at a bench's board, and one at a stranger's.

    Attributes:
        watts: of each rail, as the guest's monitors have them.
    """

    guest: Guest
    bench: BenchProcess
    cables: Mapping[str, Cable]
    watts: Mapping[str, float] = field(factory=dict)
    _levels: list[str] = field(factory=list)

    def plug(self, name: str, port: str = "") -> None:
        """Plug an adapter in, at its own socket of the hub or at another."""
        cable = self.cables[name]
        line = self.guest.plug_adapter(name, cable.serial, port or cable.port)
        line.setblocking(False)
        cable.line = line

    def unplug(self, name: str) -> None:
        """Pull an adapter out."""
        self.cables[name].line = None
        self.guest.unplug(name)

    def tick(self) -> int | None:
        """Hand straps to the board and its power to the monitors; returns the session's exit status, None: it runs."""
        before, self.watts = self.watts, drawn(self.bench.truth().notes)
        registers = registers_of(self.watts) if self.watts != before else []
        levels, ended = self.guest.run(
            f"set_rails({registers})\nanswer = [path.read_text().strip() for path in lines], session and session.poll()"
        )
        if levels != self._levels:  # a board that is switched on meanwhile would read an empty file
            self._levels = levels
            for bit, level in zip(boards.load(TYPE).media_straps, levels, strict=True):
                straps.write(Path(self.bench.board.straps), bit, high=level == "1")
        return None if ended is None else int(ended)

    def tick_for(self, seconds: float) -> None:
        """The same for so long."""
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            self.tick()
            time.sleep(min(left_s, 0.2))

    def write_environment(self, match: str = "ID_SERIAL_SHORT") -> None:
        """Write the board's environment, its adapters named by this property of udev's."""
        self.guest.run(f"Path('{GUEST_ENV}').write_text({yaml.safe_dump(environment(self, match))!r})")

    def start(self, *words: str) -> None:
        """Start `pytest --lg-env` in the guest."""
        self.guest.run(f"session = Session({[f'--lg-env={GUEST_ENV}', '-p', 'no:cacheprovider', *words]})")

    def outcome(self, folder: Path) -> Outcome:
        """The guest's results and recordings, once its sessions have ended, and forget them."""
        now_ns = MonotonicRaw().now_ns
        before_ns = now_ns()
        guest_ns = self.guest.run("answer = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)")
        shift_ns = (before_ns + now_ns()) // 2 - guest_ns
        log, database, recordings = self.guest.run("""
with contextlib.closing(sqlite3.connect('/tmp/results.db')) as database:
    database.execute('PRAGMA wal_checkpoint(TRUNCATE)')
answer = [base64.b64encode(path.read_bytes()).decode() for path in (Path('/tmp/session.log'), Path('/tmp/results.db'))]
answer.append([base64.b64encode(path.read_bytes()).decode() for path in Path('/tmp/run/recordings').rglob('*.log')])
for path in Path('/tmp').glob('results.db*'):
    path.unlink()
""")
        (folder / "results.db").write_bytes(base64.b64decode(database))
        with open_store(f"sqlite:///{folder / 'results.db'}") as store:
            runs = [(run, store.attempts(run.id)) for run in store.runs()]
        attempts = [attempt for _, attempts in runs for attempt in attempts]
        timed = [
            evolve(timed, start_ns=timed.start_ns + shift_ns, prompt_ns=timed.prompt_ns + shift_ns)
            for run, attempts_of_run in runs
            for timed in boot_times(run, attempts_of_run)
        ]
        return Outcome(base64.b64decode(log).decode(), attempts, timed, b"".join(map(base64.b64decode, recordings)))


@frozen
class Outcome:
    """The outcome of a guest's runs.

    Attributes:
        log: what its last pytest printed.
        timed: their boot times, at instants of this host's clock.
        recorded: all bytes of all recordings.
    """

    log: str
    attempts: list[Attempt]
    timed: list[Timed]
    recorded: bytes

    @property
    def failures(self) -> Counter[str]:
        """Failure class -> number of attempts."""
        return Counter(attempt.outcome for attempt in self.attempts if attempt.outcome != "ok")


def nominal_volts() -> dict[str, float]:
    """The rails with a monitor."""
    return {rail.name: rail.volts for rail in boards.load(TYPE).rails if rail.name in MONITORS}


def drawn(notes: Sequence[Note], begin: str = "rails=") -> dict[str, float]:
    """Rail -> watts by the newest note that begins so; empty: the board is off."""
    text = next((note.text for note in reversed(notes) if note.text.startswith(begin)), "")
    microwatts = (word.split("=") for word in text.partition(" uw: ")[2].split())
    return {rail: int(number) / 1e6 for rail, number in microwatts if int(number)}


def registers_of(watts: Mapping[str, float]) -> list[tuple[int, list[tuple[int, int]]]]:
    """The monitors' registers: bus voltage (1.25 mV) and current through the driver's shunt."""
    volts = nominal_volts()
    registers = []
    for rail, (address, shunt_mohm) in MONITORS.items():
        amperes = watts.get(rail, 0.0) / volts[rail] * shunt_mohm / DRIVER_MOHM
        is_on = rail in watts
        registers.append((address, [(2, round(volts[rail] / 1.25e-3) * is_on), (4, round(amperes / STEP_A))]))
    return registers


def environment(lab: GuestLab, match: str) -> dict[str, Any]:
    """The board's environment with the guest's own adapters, lines and monitors in place of the bench's."""
    env: dict[str, Any] = yaml.safe_load((lab.bench.folder / lab.bench.board.name / ENV).read_text())
    main = env["targets"]["main"]
    number, outputs = lab.guest.run("answer = int(bus.name.removeprefix('i2c-')), outputs")
    straps_of = {f"B{bit}": output for bit, output in zip(boards.load(TYPE).media_straps, outputs, strict=True)}
    adapters = lab.guest.run(f"answer = adapters({len(lab.cables)})")
    resources: list[dict[str, Any]] = []
    for entry in main["resources"]:
        ((kind, words),) = entry.items()
        if kind == "RawSerialPort":
            key = match.removeprefix("@")
            value = adapters[lab.cables[words["name"]].serial][key]
            kind, words = "USBSerialPort", {"name": words["name"], "match": {match: value}, "speed": words["speed"]}
        elif words.get("name") in straps_of:
            continue
        elif kind == "RailSensors":
            rails = {
                rail: {"channel": f"{number}-{address:04x}", "shunt_mohm": mohm, "address": 0}
                for rail, (address, mohm) in MONITORS.items()
            }
            rails["vddr_core"] = {"shared_with": "vdd_core"}
            words = {"backend": "hwmon", "port": "/sys/class/hwmon", "rails": rails}
        resources.append({kind: words})
    main["resources"] = resources
    for driver in main["drivers"]:
        words = driver.get("HttpDigitalOutputDriver", {})
        if words.get("name") in straps_of:
            driver.clear()
            driver["FileDigitalOutputDriver"] = {"name": words["name"], "filepath": straps_of[words["name"]]}
    env["imports"] = ["lab.drivers", "/lab/project/strategies/boardstrategy.py"]
    return env


@contextmanager
def guest_lab(folder: Path, *words: str) -> Iterator[GuestLab]:
    """A lab in a guest; `words` go to `lab virtual up sim`."""
    with running_bench(folder / "bench", "sim", "--type", TYPE, *words) as bench, running(folder) as guest:
        uarts = {
            name: os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK) for name, path in bench.board.uarts.items()
        }
        cables = {
            name: Cable(name, serial, port, uarts.get(name))
            for name, serial, port in (("main0", "AM62A", "1"), ("mcu", "AM62B", "2"), ("stranger", "AM64A", "3"))
        }
        lab = GuestLab(guest, bench, cables)
        stop = threading.Event()
        carrier = threading.Thread(target=carry, args=(list(cables.values()), stop))
        carrier.start()
        try:
            for name in cables:
                lab.plug(name)
            guest.run(HELPERS)
            board = boards.load(TYPE)
            mode = board.media["sd"].boot_mode  # the straps come too late for a session's first boot
            levels = ["high" if mode >> bit & 1 else "low" for bit in board.media_straps]
            guest.run(f"set_rails({registers_of({})})\nprobe({[a for a, _ in MONITORS.values()]})")
            guest.run(f"lines, outputs = make_lines({levels})\nsession = None")
            ports = [address.rpartition(":")[2] for address in (bench.state.pdudaemon, bench.state.http)]
            guest.run(f"for port in {ports}:\n    forward(port)")
            yield lab
        finally:
            stop.set()
            carrier.join()
            for uart in uarts.values():
                os.close(uart)


def carry(cables: Sequence[Cable], stop: threading.Event) -> None:
    """Carry bytes until the event is set, ahead of other work."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    while not stop.is_set():
        waiting = [cable.uart for cable in cables if cable.uart is not None]
        waiting += [line.fileno() for cable in cables if (line := cable.line) is not None]
        with suppress(OSError, ValueError):  # closed meanwhile
            select.select([fd for fd in waiting if fd >= 0], [], [], PAUSE_S)
        for cable in cables:
            cable.carry()
