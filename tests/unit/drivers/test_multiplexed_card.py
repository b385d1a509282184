"""The card of a multiplexer goes to the host and back, each position verified, through any driver with labgrid's calls."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import pyudev
from labgrid import Target

from lab.drivers import MultiplexedCardDriver, VirtualSDMux, VirtualSDMuxDriver
from lab.errors import LabTransientError
from lab.provision.errors import MediaMissingError, MultiplexerFailedError, TargetRefusedError
from lab.provision.release import Content, Image
from lab.provision.writer import WriteTarget as WayTarget
from lab.provision.writers.sd_mux import identity_of

KIND = WayTarget("b1", "any", "sd")


class Strategy:
    """The strategy as far as a card needs it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def transition(self, status: str) -> None:
        self.asked.append(status)


class Bench:
    """A multiplexer that may be stuck; answers in the words of sd-mux-ctrl."""

    def __init__(self, image: Path) -> None:
        self.image, self.at, self.stuck, self.moves = image, "dut", "", list[str]()

    def ask(self, mode: str | None) -> str:
        if mode is not None:
            self.moves.append(mode)
            self.at = self.stuck or mode
            if self.at == "host":
                self.image.write_bytes(bytes(1 << 20))
        return {"host": "SD connected to: TS", "dut": "DUT"}[self.at]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    found = Bench(tmp_path / "card.img")
    monkeypatch.setattr(VirtualSDMuxDriver, "_ask", lambda _driver, mode: found.ask(mode))
    return found


def driver(bench: Bench, **more: object) -> MultiplexedCardDriver:
    target = Target("main")
    VirtualSDMux(target, "mux", url="http://127.0.0.1:1/boards/b1/sdmux", image=str(bench.image))
    VirtualSDMuxDriver(target, "muxdriver")
    return MultiplexedCardDriver(target, "card", **more)


def content(tmp_path: Path) -> Content:
    path = tmp_path / "a.wic"
    path.write_bytes(b"x" * 4096)
    return Content(Image(source=str(path), sha256=hashlib.sha256(path.read_bytes()).hexdigest(), size=4096))


def test_the_board_is_off_and_the_card_is_given_back(bench: Bench, tmp_path: Path) -> None:
    strategy = Strategy()
    writer = driver(bench).writers(strategy)["sd"]
    plan = writer.plan(content(tmp_path), KIND)
    assert strategy.asked == ["off"]
    assert bench.moves == ["host", "dut"]
    assert plan.target.size_bytes == 1 << 20


def test_a_multiplexer_that_does_not_move_is_no_card_at_the_host(bench: Bench, tmp_path: Path) -> None:
    bench.stuck = "dut"
    with pytest.raises(MultiplexerFailedError, match="was switched to 'host'"):
        driver(bench).writers(Strategy())["sd"].plan(content(tmp_path), KIND)


def test_a_card_of_another_size_is_refused_and_given_back(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(TargetRefusedError):
        driver(bench, smallest_gib=1.0).writers(Strategy())["sd"].plan(content(tmp_path), KIND)
    assert bench.moves[-1] == "dut"


def test_a_host_that_sees_no_card_is_told(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.drivers.multiplexedcarddriver._MEDIUM_S", 0.0)
    monkeypatch.setattr(VirtualSDMux, "disk", _missing)
    with pytest.raises(MediaMissingError):
        driver(bench).writers(Strategy())["sd"].plan(content(tmp_path), KIND)
    assert bench.at == "dut"


def _missing(_mux: VirtualSDMux) -> None:
    raise MediaMissingError("no card")


def test_a_bench_that_is_down_is_told() -> None:
    target = Target("main")
    VirtualSDMux(target, "mux", url="http://127.0.0.1:1/boards/b1/sdmux", image="/none")
    mux = VirtualSDMuxDriver(target, "muxdriver")
    target.activate(mux)
    with pytest.raises(LabTransientError, match="lab virtual status"):
        mux.get_mode()


@pytest.mark.parametrize("raised", [pyudev.DeviceNotFoundByFileError("gone"), FileNotFoundError(2, "gone")])
def test_a_card_that_vanishes_while_udev_is_asked_is_missing(
    monkeypatch: pytest.MonkeyPatch, raised: Exception
) -> None:
    def gone(_context: object, _path: str) -> None:
        raise raised

    monkeypatch.setattr(pyudev.Devices, "from_device_file", gone)
    with pytest.raises(MediaMissingError, match="vanished"):
        identity_of("/dev/sdz")
