"""The rails of a virtual board in virtual time: the product's sensor and recorder on the emulated INA231s."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import define, field

from lab import boards
from lab.rails import AdcRange, RailConfig, RailsConfig
from lab.rails.i2c import NackError, Register
from lab.rails.ina import InaSensor
from lab.rails.ina_chips import CHIPS
from lab.rails.sampler import SensorRecorder
from lab.virtual.rails.levels import IDLE, levels, shared_rails, wired
from lab.virtual.rails.sensors import Rails, RailTrouble
from lab.virtual.truth_log import read_truth

S, MS = 1_000_000_000, 1_000_000


@define(eq=False)
class RailBus:
    """An I2C bus without a wire: it asks the emulated chips."""

    bench: RailBench
    name: str = "virtual bus"
    limit: str = ""

    def prepare(self, registers: Sequence[Register]) -> Callable[[], Sequence[int]]:
        return lambda: [self._read(register) for register in registers]

    def write(self, register: Register, value: int) -> None:
        chip = self.bench.rails.chip_at(register.address)
        if chip is None or not chip.write(register.number, value, self.bench.now_ns):
            raise NackError

    def close(self) -> None: ...

    def _read(self, register: Register) -> int:
        chip = self.bench.rails.chip_at(register.address)
        value = None if chip is None else chip.read(register.number, self.bench.now_ns)
        if value is None:
            raise NackError
        return value


def config_of(board_type: str, port: str, board: str = "board-1") -> RailsConfig:
    """What an environment says of a virtual board's rails."""
    board_data = boards.load(board_type)
    shared = shared_rails(board_data)
    with_sensor = {rail.rail: rail for rail in wired(board_data)}
    rails = [
        RailConfig(rail.name, rail.volts, shared_with=shared[rail.name])
        if rail.name in shared
        else RailConfig(
            rail.name,
            rail.volts,
            with_sensor[rail.name].address,
            with_sensor[rail.name].shunt_mohm,
            tolerance=0.0,
            offset_uv=0.0,
            max_w=4 * levels(board_data, "")[IDLE][rail.name],
        )
        for rail in board_data.rails
    ]
    return RailsConfig(board, "ina231", port, tuple(rails), bus_khz=2940)


@define(eq=False)
class RailBench:
    """A board whose state a test says; a clock that the test turns."""

    board_type: str = "am62xx_lp_sk"
    seed: int = 1
    troubles: list[RailTrouble] = field(factory=list)
    now_ns: int = 1000 * S
    notes: list[str] = field(factory=list)
    rails: Rails = field(init=False)
    config: RailsConfig = field(init=False)
    _due_ns: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        board = boards.load(self.board_type)
        release = list(board.releases)[-1] if board.releases else ""
        self.rails = Rails(
            board, release, self.seed, lambda: self.troubles, lambda _t_ns, text: self.notes.append(text)
        )
        self.config = config_of(self.board_type, "unix:virtual")

    def record(self, path: Path, wanted: AdcRange, *states: tuple[str, float]) -> list[tuple[str, int, int]]:
        """Record a board that goes through these states for so many seconds; (state, start_ns, end_ns) of each."""
        recorder = self.recorder(path, wanted)
        phases = self.play(recorder, *states)
        recorder.close()
        return phases

    def recorder(self, path: Path, wanted: AdcRange) -> SensorRecorder:
        """A started recorder of this board."""
        sensor = InaSensor(self.config, CHIPS[self.config.backend], RailBus(self))
        self._due_ns = self.now_ns
        return SensorRecorder(self.config, sensor, wanted, path, BenchClock(self), "virtual time")

    def play(self, recorder: SensorRecorder, *states: tuple[str, float]) -> list[tuple[str, int, int]]:
        """Let the board go through these states while it is recorded; (state, start_ns, end_ns) of each."""
        phases = []
        for state, seconds in states:
            start_ns, end_ns = self.now_ns, self.now_ns + round(seconds * S)
            self.rails.enter(state, start_ns)
            phases.append((state, start_ns, end_ns))
            while self._due_ns <= end_ns:
                self.now_ns = self._due_ns
                recorder.store(recorder.poll())
                self._due_ns += recorder.poll_ns
            self.now_ns = end_ns
        return phases

    def watts(self, state: str) -> dict[str, float]:
        """The true mean power of each rail in a state."""
        return dict(self.rails.load.levels.get(state, {}))


@define(eq=False)
class BenchClock:
    """The clock of a RailBench."""

    bench: RailBench
    name: str = "virtual"

    def now_ns(self) -> int:
        return self.bench.now_ns


def resolution_w(config: RailsConfig, rail: str) -> float:
    """One step of the shunt register of an INA231, as power."""
    found = next(each for each in config.rails if each.name == rail)
    return 2.5e-6 / (found.shunt_mohm / 1000) * found.volts


def drawn(truth: Path) -> list[tuple[int, str, dict[str, float]]]:
    """When the load changed, to which state, and what each rail draws since, in watt."""
    found = []
    for note in read_truth(truth).notes:
        if note.text.startswith("rails="):
            state, _, text = note.text.removeprefix("rails=").partition(" uw: ")
            watts = dict(pair.split("=") for pair in text.split())
            found.append((note.t_ns, state, {rail: float(value) / 1e6 for rail, value in watts.items()}))
    return found


def true_energy_j(truth: Path, start_ns: int, end_ns: int) -> float:
    """What the board drew in all between two instants."""
    changes = [each for each in drawn(truth) if each[0] < end_ns]
    total = 0.0
    for (t_ns, _, watts), after_ns in zip(changes, [*(each[0] for each in changes[1:]), end_ns], strict=True):
        total += sum(watts.values()) * max(0, min(after_ns, end_ns) - max(t_ns, start_ns)) / 1e9
    return total
