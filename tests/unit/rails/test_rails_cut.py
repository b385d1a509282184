"""A rails server's client that is cut off: it comes back and lacks no byte of the trace, or the measurement fails with its class."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from attrs import asdict, define, evolve, field
from support.railsserved import DEADLINE_S, hwmon

from lab.errors import LabStableError, LabTransientError
from lab.host import status_files
from lab.host.runtime import prepare
from lab.host.status_files import SamplerStatus
from lab.rails import AdcRange, RailsConfig, remote
from lab.rails import server as rails_server
from lab.rails.process import Sampler
from lab.rails.remote import Copier, RailsServer
from lab.rails.server import Client, SamplingServer
from lab.rails.trace import END, RECORD

META = b'{"format": "a trace"}\n'
CUTS = 20


@define(eq=False)
class Played:
    """A sampler whose samples the test takes."""

    board: str
    path: Path
    samples: int = 0
    died: str = ""
    ended: threading.Event = field(factory=threading.Event)
    pid: int = 0

    def poll(self) -> int | None:
        return 1 if self.died else None

    def take(self, count: int) -> None:
        with self.path.open("ab") as file:
            for _ in range(count):
                self.samples += 1
                file.write(RECORD.pack(self.samples, -1, -1, 0, 0))

    @property
    def whole(self) -> bytes:
        """The trace as it must be at its end."""
        records = [RECORD.pack(number + 1, -1, -1, 0, 0) for number in range(self.samples)]
        return b"".join([META, *records, RECORD.pack(self.samples + 1, 0, 0, END, 0)])


@define(eq=False)
class Wire:
    """What leads to the server, and can be cut, or hang."""

    listener: socket.socket
    server: Path
    is_up: bool = True
    ends: list[socket.socket] = field(factory=list)
    hung: list[socket.socket] = field(factory=list)
    most: int = 1 << 20

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                if not self.is_up:
                    near.close()
                    continue
                far = socket.socket(socket.AF_UNIX)
                far.connect(str(self.server))
                self.ends += [near, far]
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self.pump, args=(source, target), daemon=True).start()

    def pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(self.most):
                if source in self.hung:
                    return
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def hang(self) -> None:
        """What is connected now stays so, and nothing comes through any more."""
        self.hung += self.ends
        self.ends = []

    def cut(self) -> None:
        self.ends += self.hung
        while self.ends:
            end = self.ends.pop()
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@define(eq=False)
class Far:
    """A rails server with played samplers, behind a wire."""

    wire: Wire
    server: RailsServer
    kept: rails_server.KeptSamplings
    samplers: list[Played]
    config: RailsConfig


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Far]:
    samplers: list[Played] = []

    @contextlib.contextmanager
    def played(config: RailsConfig, path: Path, _wanted: object) -> Iterator[Sampler]:
        path.write_bytes(META)
        one = Played(config.board, path)
        samplers.append(one)
        try:
            yield Sampler(path, one)
        finally:
            one.ended.set()
        if one.died:
            raise LabTransientError(one.died, failure="power_sampler")
        with path.open("ab") as file:
            file.write(RECORD.pack(one.samples + 1, 0, 0, END, 0))

    monkeypatch.setattr(rails_server, "sampling", played)
    address, behind = tmp_path / "rails.sock", tmp_path / "wire.sock"
    with SamplingServer(str(address), Client) as server, socket.socket(socket.AF_UNIX) as listener:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        listener.bind(str(behind))
        listener.listen()
        wire = Wire(listener, address)
        threading.Thread(target=wire.run, daemon=True).start()
        yield Far(wire, RailsServer(lambda: behind, "lab-2"), server.kept, samplers, hwmon(tmp_path))
        wire.cut()
        server.shutdown()


def wait_for(what: Callable[[], bool]) -> None:
    ready, ends = threading.Event(), DEADLINE_S
    while not what():
        assert ends > 0
        ready.wait(0.01)
        ends -= 0.01


def test_a_client_that_is_cut_off_goes_on_at_the_byte_that_it_lacks(far: Far, tmp_path: Path) -> None:
    path, chance = tmp_path / "power.trace", random.Random(19)
    far.wire.most = 7  # so that it is cut within samples, too
    with far.server.sampling(far.config, path) as sampler:
        (played,) = far.samplers
        for _ in range(CUTS):
            wanted = path.stat().st_size + chance.randrange(1, 1000)
            played.take(100)
            wait_for(lambda wanted=wanted: path.stat().st_size >= wanted)  # type: ignore[misc]
            far.wire.is_up = False
            far.wire.cut()
            played.take(100)  # while nobody listens
            assert not played.ended.is_set()
            far.wire.is_up = True
        assert sampler.alive
        far.wire.cut()  # the end has to come through another connection, too
    assert path.read_bytes() == played.whole
    wait_for(lambda: not played.path.exists())


def test_a_connection_that_brings_nothing_any_more_is_left_for_another_one(
    far: Far, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "Copier", partial(Copier, silent_s=0.3))
    path = tmp_path / "power.trace"
    with far.server.sampling(far.config, path):
        (played,) = far.samplers
        played.take(100)
        wait_for(lambda: path.stat().st_size == len(META) + 100 * RECORD.size)
        far.wire.hang()
        played.take(100)
        wait_for(lambda: path.stat().st_size == len(META) + 200 * RECORD.size)
    assert path.read_bytes() == played.whole


def test_a_client_that_takes_nothing_and_does_not_come_back_holds_no_sampler(far: Far, tmp_path: Path) -> None:
    far.kept.keep_s = 0.3
    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.connect(str(far.wire.server))
        question = {"config": asdict(far.config), "range": AdcRange.ACTIVE.value}
        stopped.sendall(json.dumps(question).encode() + b"\n")
        wait_for(lambda: bool(far.samplers))
        far.samplers[0].take(100_000)  # more than a socket takes
        assert far.samplers[0].ended.wait(DEADLINE_S)


def test_who_does_not_come_back_in_time_has_no_measurement_and_the_sampler_ends(far: Far, tmp_path: Path) -> None:
    far.kept.keep_s, server = 0.3, evolve(far.server, patience_s=0.3)

    def measure() -> None:
        with server.sampling(far.config, tmp_path / "power.trace") as sampler:
            far.wire.is_up = False
            far.wire.cut()
            wait_for(lambda: not sampler.alive)

    with pytest.raises(LabTransientError, match=r"cut.*within 0\.3 s") as caught:
        measure()
    assert caught.value.failure == "power_sampler"
    assert far.samplers[0].ended.wait(DEADLINE_S)


def test_who_comes_back_too_late_is_told(far: Far, tmp_path: Path) -> None:
    far.kept.keep_s = 0.1

    def measure() -> None:
        with far.server.sampling(far.config, tmp_path / "power.trace") as sampler:
            far.wire.is_up = False
            far.wire.cut()
            assert far.samplers[0].ended.wait(DEADLINE_S)
            wait_for(lambda: not far.samplers[0].path.exists())
            far.wire.is_up = True
            wait_for(lambda: not sampler.alive)

    with pytest.raises(LabTransientError, match=r"on lab-2: .*has ended"):
        measure()


def test_what_a_sampler_failed_of_is_told_to_who_waits_for_it(far: Far, tmp_path: Path) -> None:
    def measure() -> None:
        with far.server.sampling(far.config, tmp_path / "power.trace") as sampler:
            far.samplers[0].died = "0x40 does not answer"
            wait_for(lambda: not sampler.alive)

    with pytest.raises(LabTransientError, match=r"lab-2: 0x40.*not answer"):
        measure()


def test_a_client_that_was_killed_makes_room_for_the_next_one_of_its_board(far: Far, tmp_path: Path) -> None:
    question = {"config": json.loads(far.config.dumps()), "range": "active"}
    with socket.socket(socket.AF_UNIX) as killed:
        killed.connect(str(far.wire.server))
        killed.sendall(json.dumps(question).encode() + b"\n")
        assert b"trace" in killed.recv(1000)
    wait_for(lambda: all(each.is_left for each in far.kept.samplings))
    with far.server.sampling(far.config, tmp_path / "power.trace"):
        first, second = far.samplers
        assert first.ended.is_set()
        assert not second.ended.is_set()


def test_who_looks_on_here_is_told_of_the_trace_while_it_grows(far: Far, tmp_path: Path) -> None:
    folder = prepare(tmp_path / "run") / status_files.SAMPLERS
    with evolve(far.server, runtime=folder.parent).sampling(far.config, tmp_path / "power.trace"):
        (told,) = status_files.read_all(folder, SamplerStatus)
        assert (told.board, told.trace) == ("b1", str(tmp_path / "power.trace"))
        assert abs(told.ahead_ns) < DEADLINE_S * 10**9
    assert status_files.read_all(folder, SamplerStatus) == []


def test_a_full_disk_here_is_no_cut(far: Far) -> None:
    def measure() -> None:
        with far.server.sampling(far.config, Path("/dev/full")) as sampler:
            wait_for(lambda: not sampler.alive)

    with pytest.raises(LabStableError, match=r"/dev/full: .*No space") as caught:
        measure()
    assert caught.value.failure == "disk"
