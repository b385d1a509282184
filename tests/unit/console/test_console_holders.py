"""Who else holds a port, and what a failure is then."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from support.console_bench import Adapter
from support.facts import missing_facts

from lab.console.holders import PortHolder, blame_sharing, explaining_shared_port, holders, shared_port_error
from lab.errors import (
    BoardlabError,
    BoardTransientError,
    ConfigurationError,
    LabStableError,
    LabTransientError,
    TestStableError,
    TestTransientError,
)

USER = pwd.getpwuid(os.getuid()).pw_name
READ_WRITE, WRITE_ONLY = "02", "01"


@pytest.fixture
def adapter(tmp_path: Path) -> Iterator[Adapter]:
    adapter = Adapter(tmp_path / "uart0")
    yield adapter
    adapter.close()


Process = Callable[..., Path]


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Process:
    """Writes a process into a folder like /proc: its open files, with what is known of each."""
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path / "proc"))
    monkeypatch.setattr("lab.console.holders.PROC", tmp_path / "proc")

    def add(pid: int, files: Mapping[str, str], *, comm: str = "minicom", parent: int = 1) -> Path:
        entry = tmp_path / "proc" / str(pid)
        (entry / "fd").mkdir(parents=True)
        (entry / "fdinfo").mkdir()
        for number, (target, info) in enumerate(files.items(), start=3):
            (entry / "fd" / str(number)).symlink_to(target)
            (entry / "fdinfo" / str(number)).write_text(f"pos:\t0\n{info}\n")
        (entry / "stat").write_text(f"{pid} ({comm}) S {parent} 1 1 0 {'0 ' * 45}")
        (entry / "status").write_text(f"Uid:\t{os.getuid()}\t{os.getuid()}\t0\t0\n")
        (entry / "cmdline").touch()
        return entry

    return add


def test_who_holds_a_port_is_found_with_its_user_and_whether_it_reads(
    adapter: Adapter, process: Process, tmp_path: Path
) -> None:
    device = os.fspath(adapter.link.resolve())
    process(17, {device: f"flags:\t{READ_WRITE}"})
    process(16, {device: f"flags:\t{WRITE_ONLY}"}, comm="echo")
    process(18, {"/dev/null": f"flags:\t{READ_WRITE}"})
    (tmp_path / "proc" / "self").mkdir()
    (tmp_path / "proc" / "19").mkdir()
    found = holders(adapter.link)
    assert found == [PortHolder(16, "echo", USER, reads=False), PortHolder(17, "minicom", USER)]
    error = shared_port_error(adapter.link)
    assert error is not None
    assert (error.failure, error.fault, error.transient) == ("console_shared", "lab", True)
    assert not missing_facts(str(error), "pid 17", "minicom", f"user {USER}", "`kill 17`")


def test_the_server_its_children_and_who_plays_the_board_are_no_strangers(
    adapter: Adapter, process: Process, tmp_path: Path
) -> None:
    device = adapter.link.resolve()
    read_write = f"flags:\t{READ_WRITE}"
    process(20, {os.fspath(device): read_write})
    process(21, {os.fspath(device): read_write}, parent=20)
    process(22, {os.fspath(device): read_write, "/dev/ptmx": f"{read_write}\ntty-index:\t{device.name}"})
    assert holders(adapter.link, {20}) == []
    process(23, {os.fspath(device): read_write, "/dev/ptmx": f"{read_write}\ntty-index:\t{device.name}1"})
    assert [holder.pid for holder in holders(adapter.link, {20})] == [23]
    assert [holder.pid for holder in holders(adapter.link, ())] == [20, 21, 23]


def test_a_process_that_has_its_parents_files_for_a_moment_is_no_stranger(
    adapter: Adapter, process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = process(27, {os.fspath(adapter.link.resolve()): f"flags:\t{READ_WRITE}"}, comm="python")

    def exec_now(_seconds: float) -> None:
        for descriptor in (entry / "fd").iterdir():
            descriptor.unlink()

    monkeypatch.setattr("lab.console.holders.time.sleep", exec_now)
    assert holders(adapter.link) == []


def test_a_terminal_of_a_container_is_another_one_of_the_same_name(
    adapter: Adapter, process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each container has a devpts of its own, with a /dev/pts/0."""
    descriptor = process(28, {os.fspath(adapter.link.resolve()): f"flags:\t{READ_WRITE}"}) / "fd" / "3"
    assert [holder.pid for holder in holders(adapter.link)] == [28]
    stat = os.stat

    def theirs(path: Path, **more: bool) -> os.stat_result | SimpleNamespace:
        found = stat(path, **more)
        if path != descriptor:
            return found
        return SimpleNamespace(st_rdev=found.st_rdev, st_dev=found.st_dev + 1, st_mode=found.st_mode)

    monkeypatch.setattr("lab.console.holders.os.stat", theirs)
    assert holders(adapter.link) == []


def test_a_process_whose_files_are_hidden_is_known_by_its_command_line(
    adapter: Adapter, process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid, line in ((24, f"picocom\0-b\0115200\0{adapter.link}\0"), (25, "picocom\0/dev/ttyUSB7\0")):
        (process(pid, {}, comm="picocom") / "cmdline").write_text(line)
    monkeypatch.setattr("lab.console.holders._descriptors", hidden)
    (found,) = holders(adapter.link)
    assert str(found) == f"pid 24 (picocom, user {USER}, by its command line)"


def test_a_getty_names_the_port_without_its_folder(
    process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = tmp_path / "ttyUSB0"
    port.touch()
    entry = process(26, {}, comm="agetty")
    (entry / "cmdline").write_text("/sbin/agetty\0--keep-baud\0ttyUSB0\0vt220\0")
    monkeypatch.setattr("lab.console.holders._descriptors", hidden)
    assert [holder.program for holder in holders(port)] == ["agetty"]


def hidden(pid: int) -> Iterator[tuple[Path, str]]:
    raise PermissionError(pid)


HOLD = "import os, sys; os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY); print('held', flush=True); input()"


def test_a_real_process_that_holds_a_port_is_blamed_and_only_for_what_it_can_have_caused(adapter: Adapter) -> None:
    hung = BoardTransientError("hung in kernel", failure="hang_kernel")
    garbled = LabTransientError("unreadable", failure="garbled")
    assert blame_sharing(hung, adapter.link) is hung
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, adapter.link], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        found = blame_sharing(hung, adapter.link)
        assert (found.failure, found.fault) == ("console_shared", "lab")
        assert f"pid {other.pid} (" in str(found)
        assert not missing_facts(str(found), "[hang_kernel]", "hung in kernel")
        for error in (garbled, TestTransientError("in pieces")):
            assert blame_sharing(error, adapter.link).failure == "console_shared"
        for error in (LabStableError("pdu"), TestStableError("impossible"), ConfigurationError("wrong")):
            assert blame_sharing(error, adapter.link) is error
        assert blame_sharing(hung, adapter.link, {other.pid}) is hung
        other.communicate(b"\n")


class Quiet:
    """A console that nobody else reads, or that somebody does."""

    def __init__(self, found: BoardlabError | None) -> None:
        self.found = found

    def blame_sharing(self, error: BoardlabError) -> BoardlabError:
        return self.found or error


def test_what_failed_is_raised_as_it_was_unless_somebody_is_to_blame() -> None:
    hung = BoardTransientError("hung in kernel", failure="hang_kernel")
    with pytest.raises(BoardTransientError) as caught, explaining_shared_port(Quiet(None)):
        raise hung
    assert caught.value is hung
    other = LabTransientError("somebody else", failure="console_shared")
    with pytest.raises(LabTransientError) as caught_lab, explaining_shared_port(Quiet(other)):
        raise hung
    assert caught_lab.value is other
    assert other.__cause__ is hung
