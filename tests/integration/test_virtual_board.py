"""A virtual board as its user has it: power through pdudaemon, straps, console. Real U-Boot, real Linux."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.facts import missing_facts
from support.virtual_bench import DEADLINE_S, BenchProcess, Console, all_end, running_bench, watched

MEDIA = {"sd": 1, "emmc": 2, "ospi": 3}  # the strap words


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchProcess]:
    with running_bench(tmp_path_factory.mktemp("bench")) as bench:
        yield bench


@pytest.fixture(autouse=True)
def board_off(bench: BenchProcess) -> Iterator[None]:
    yield
    assert bench.power("off") == 200


def boot(bench: BenchProcess, console: Console, medium: str) -> None:
    """Switch the board on, read its boot medium, and log in."""
    name = medium.encode()
    bench.set_straps(MEDIA[medium])
    console.drain()
    console.data.clear()
    assert bench.power("on") == 200
    console.until(rb"Hit any key to stop autoboot")
    console.until(b"Boot mode pins: " + name + rb" \r\n")
    console.until(rb"Starting kernel \.\.\.")
    console.until(b"\\[ +0\\.000000\\] Kernel command line: .*bootmedia=" + name)
    console.until(rb"Run /init as init process")
    console.until(b"Root file system of medium " + name)
    console.until(rb"qemu-virt login: ")
    console.write(b"root\n")
    console.until(rb"root@qemu-virt:[^ ]*# ")
    console.write(b"uname -m; cat /etc/medium\n")
    console.until(b"aarch64\r\n" + name + b"\r\n")


@pytest.mark.soak  # two tests below boot the others so
def test_the_board_boots_the_medium_that_the_straps_select_and_says_so(bench: BenchProcess) -> None:
    with bench.console() as console:
        boot(bench, console, "emmc")


def test_the_prompt_asks_the_terminal_nothing_and_the_truth_log_has_every_byte_in_time_order(
    bench: BenchProcess,
) -> None:
    """Programs that wait for a prompt at the end of what came, as tbot does, would wait for ever behind a question."""
    begin = len(bench.truth().data)
    with bench.console() as console:
        boot(bench, console, "sd")
        for count in range(3):
            console.until(rb"root@qemu-virt:[^ ]*# ")
            console.write(b"echo answer $((%d + 1))\n" % count)
            console.until(b"\r\nanswer %d\r\n" % (count + 1))
        console.until(rb"root@qemu-virt:[^ ]*# ")
        console.write(b"sh\n")  # an interactive shell of its own, without the profile's prompt
        console.until(rb"# ")
        console.write(b"exit\n")
        console.until(rb"root@qemu-virt:[^ ]*# ")
    assert bench.power("off") == 200  # so that nothing is on its way any more
    truth = bench.truth()
    session = truth.data[begin:]
    assert b"\r\nanswer 3\r\n" in session
    assert b"\x1b[6n" not in session
    on, off = [event for event in truth.power if event.state in {"on", "off"}][-2:]
    marks = [
        truth.find(pattern, start_ns=on.t_ns)[-1]
        for pattern in (rb"U-Boot 20\d\d", rb"Boot mode pins: \w+ ", rb"Starting kernel", rb"qemu-virt login: ")
    ]
    assert [on.t_ns, *marks, off.t_ns] == sorted({on.t_ns, *marks, off.t_ns})
    assert truth.lost == 0
    assert truth.left_ns(len(truth.data) - 1) - truth.left_ns(begin) >= (len(session) - 10) * 10 * 1e9 / 115200


def test_without_a_boot_mode_the_board_says_so_and_waits_at_the_prompt(bench: BenchProcess) -> None:
    bench.set_straps(0)
    with bench.console() as console:
        console.drain()
        assert bench.power("on") == 200
        console.until(rb"Boot mode pins: none \r\n")
        console.until(rb"no boot device\r\n")
        console.until(rb"=> ")
        console.write(b"echo still here\r")
        console.until(rb"\r\nstill here\r\n")


def test_autoboot_can_be_interrupted(bench: BenchProcess) -> None:
    bench.set_straps(1)
    with bench.console() as console:
        console.drain()
        assert bench.power("on") == 200
        console.until(rb"Hit any key to stop autoboot")
        console.write(b"\r")
        console.until(rb"=> ")


def test_power_off_ends_qemu_and_the_text_but_not_the_port(bench: BenchProcess) -> None:
    bench.set_straps(1)
    with bench.console() as console:
        assert bench.power("on") == 200
        console.until(rb"Hit any key to stop autoboot")
        with watched(bench.child("qemu-system")) as qemu:
            assert bench.power("off") == 200
            assert all_end(qemu)
        with pytest.raises(LookupError):
            bench.child("qemu-system")
        console.drain()  # a hang-up would raise here
        truth = bench.truth()
        assert truth.left_ns(len(truth.data) - 1) <= truth.power[-1].t_ns
        console.data.clear()
        assert bench.power("on") == 200
        console.until(rb"U-Boot 20")


def test_power_commands_may_be_repeated(bench: BenchProcess) -> None:
    assert bench.power("off") == 200
    assert bench.power("on") == 200
    qemu = bench.child("qemu-system")
    assert bench.power("on") == 200
    assert bench.child("qemu-system") == qemu


def test_a_killed_qemu_is_a_dead_board_until_it_is_power_cycled(bench: BenchProcess) -> None:
    assert bench.power("on") == 200
    with watched(bench.child("qemu-system")) as qemu:
        os.kill(bench.child("qemu-system"), signal.SIGKILL)
        assert all_end(qemu)
    status = bench.status()
    assert status["power"] == "dead"
    assert "status -9" in status["reason"]
    assert bench.power("on") == 500
    assert bench.power("off") == 200
    assert bench.power("on") == 200
    assert bench.status()["power"] == "on"


def test_a_guest_that_shuts_down_is_a_dead_board(bench: BenchProcess) -> None:
    with bench.console() as console:
        boot(bench, console, "ospi")
        console.until(rb"# ")
        with watched(bench.child("qemu-system")) as qemu:
            console.write(b"poweroff -f\n")
            assert all_end(qemu)
    assert bench.status()["power"] == "dead"


def test_what_the_bench_cannot_do_reaches_the_caller_as_a_failure(bench: BenchProcess) -> None:
    strap = Path(bench.board.straps) / "bit0"
    strap.write_text("high\n")
    assert bench.power("on") == 500
    assert bench.status()["power"] == "off"
    assert not missing_facts(bench.status()["straps"], "0 or 1", "'high'")
    strap.write_text("1\n")
    assert bench.power("on", outlet=2) == 500
    assert bench.power("on") == 200


def test_a_qemu_that_cannot_start_leaves_the_board_off_and_its_reason_in_the_log(bench: BenchProcess) -> None:
    medium = bench.folder / "qemu-1" / "media" / "sd.img"
    aside = medium.with_suffix(".aside")
    medium.rename(aside)
    try:
        assert bench.power("on") == 500
    finally:
        aside.rename(medium)
    assert bench.status()["power"] == "off"
    assert "sd.img': No such file or directory" in (bench.folder / "bench.log").read_text()
    assert bench.power("on") == 200


def test_a_board_keeps_what_it_wrote_on_its_medium(bench: BenchProcess) -> None:
    """Media are the board's own: a sector that U-Boot wrote before the partition is there after a power cycle."""
    bench.set_straps(0)
    for commands in (
        b"mw.l 41000000 cafef00d; virtio scan; virtio write 41000000 10 1\r",
        b"mw.l 42000000 0; virtio scan; virtio read 42000000 10 1; md.l 42000000 1\r",
    ):
        with bench.console() as console:
            console.drain()
            assert bench.power("on") == 200
            console.until(rb"no boot device\r\n=> ")
            console.write(commands)
            console.until(rb"1 blocks (read|written|write): OK")
            answer = console.until(rb"(?s).*=> ").group()
            assert bench.power("off") == 200
    assert b"42000000: cafef00d" in answer


def test_nothing_of_the_bench_grows_with_the_number_of_power_cycles(bench: BenchProcess) -> None:
    def descriptors() -> int:
        return len(list(Path(f"/proc/{bench.state.pid}/fd").iterdir()))

    assert bench.power("off") == 200
    before = descriptors()
    for _ in range(5):
        assert bench.power("on") == 200
        assert bench.power("off") == 200
    deadline = time.monotonic() + DEADLINE_S
    while (
        descriptors() > before + 1
    ):  # pdudaemon may hold a connection, and one that has ended is closed a moment later
        assert time.monotonic() < deadline, "descriptors stay open"
        time.sleep(0.05)
