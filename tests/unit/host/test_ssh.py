"""One ssh connection per host: ending one leaves the others alone, and a forward without a socket is made again."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
from pathlib import Path

import pytest

from lab.errors import ConfigurationError, LabTransientError
from lab.host import ssh
from lab.host.ssh import SshLink

# What ssh does with its control socket and forwards; `kept`: the master says that it has the forward, and makes no socket. `refuses`: it
# makes none, as ssh does where the socket's path is too long. `hangs`: the master answers nothing until a new one is made.
SSH = """#!/bin/sh
state=$(dirname "$0")
while [ $# -gt 1 ]; do
    case $1 in
        -S) control=$2; shift ;;
        -M) what=connect ;;
        -O) what=$2; shift ;;
        -L) local=${2%%:*}; shift ;;
        -o|-F) shift ;;
        --) exec sh -c "$2" ;;
    esac
    shift
done
echo "$what" >> "$state/asked"
case $what in
    connect) rm -f "$state/hangs" ;;
    *) test -e "$state/hangs" && exec sleep 7777 ;;
esac
case $what in
    connect) : > "$control" ;;
    check) test -e "$control" ;;
    exit) rm -f "$control" ;;
    forward) test -e "$state/refuses" && exit 255; test -e "$state/kept" || : > "$local" ;;
    cancel) test -e "$state/stuck" || rm -f "$state/kept" ;;
esac
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an ssh that is first in PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "ssh").write_text(SSH)
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


@pytest.mark.usefixtures("state")
def test_ending_the_connection_to_a_host_leaves_those_to_others(tmp_path: Path) -> None:
    one, two = SshLink("lab-1", tmp_path / "ssh"), SshLink("lab-2", tmp_path / "ssh")
    first, second = one.forward("/run/console.sock"), two.forward("/run/console.sock")
    one.reset()
    assert not first.exists()
    assert second.exists()
    one._control.unlink(missing_ok=True)
    one.forward("/run/console.sock")  # connects again
    assert second.exists()


@pytest.mark.usefixtures("state")
def test_a_connection_that_another_reader_has_made_since_stays(tmp_path: Path) -> None:
    link = SshLink("lab-1", tmp_path / "ssh")
    link.forward("/run/console.sock")
    silent = link.generation()
    link.reset(silent)
    local = link.forward("/run/console.sock")
    link.reset(silent)
    assert local.exists()
    assert link.generation() not in {"", silent}
    link.reset(link.generation())
    assert link.generation() == ""


def test_a_forward_whose_socket_is_gone_is_made_again(tmp_path: Path, state: Path) -> None:
    link = SshLink("lab-1", tmp_path / "ssh")
    (state / "kept").touch()
    assert link.forward("/run/console.sock").exists()
    assert (state / "asked").read_text().split()[-3:] == ["forward", "cancel", "forward"]


def test_a_forward_that_makes_no_socket_is_the_links_fault(tmp_path: Path, state: Path) -> None:
    (state / "kept").touch()
    (state / "stuck").touch()
    with pytest.raises(LabTransientError, match="does not make") as caught:
        SshLink("lab-1", tmp_path / "ssh").forward("/run/console.sock")
    assert caught.value.failure == "console_link"


@pytest.mark.usefixtures("state")
def test_a_program_that_takes_too_long_is_ended_where_it_runs(tmp_path: Path) -> None:
    link, late = SshLink("lab-1", tmp_path / "ssh"), tmp_path / "late"
    script = f"echo $$ > {late}; exec sleep 7777"
    with pytest.raises(subprocess.TimeoutExpired):
        link.ran(["sh", "-c", script], 0.5)
    assert not Path(f"/proc/{late.read_text().strip()}").exists()


@pytest.mark.usefixtures("state")
def test_what_a_program_says_need_not_be_text(tmp_path: Path) -> None:
    done = SshLink("lab-1", tmp_path / "ssh").ran(["printf", r"\377one"], 60)
    assert (done.returncode, done.stdout) == (0, "\ufffdone")


def test_a_runtime_folder_with_too_long_a_path_for_ssh_is_said_and_not_a_wrong_key(
    tmp_path: Path, state: Path
) -> None:
    (state / "refuses").touch()
    folder = tmp_path / ("r" * 60)
    folder.mkdir(mode=0o700)
    with pytest.raises(ConfigurationError, match=r"BOARDLAB_RUNTIME.*short"):
        SshLink("lab-1", folder).forward("/run/console.sock")


def test_a_master_that_does_not_answer_is_left_and_a_new_one_made(tmp_path: Path, state: Path) -> None:
    link = SshLink("lab-1", tmp_path / "ssh", answer_s=0.2)
    link.forward("/run/console.sock")
    hung = link.generation()
    (state / "hangs").touch()
    assert link.forward("/run/console.sock").exists()
    assert link.generation() not in {"", hung}
    assert (state / "asked").read_text().split()[-3:] == ["check", "connect", "forward"]


def test_ending_a_connection_that_hangs_ends(tmp_path: Path, state: Path) -> None:
    link = SshLink("lab-1", tmp_path / "ssh", answer_s=0.2)
    local = link.forward("/run/console.sock")
    (state / "hangs").touch()
    link.reset()
    assert not local.exists()
    assert link.generation() == ""


def test_a_master_is_killed_by_its_socket_and_no_other_program(tmp_path: Path) -> None:
    control, other = tmp_path / "one.ctl", tmp_path / "other.ctl"

    def played(*words: str | Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["sh", "-c", "echo; read -r _", "ssh", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    master = played("-S", control, "-f", "-N", "-M", "lab-1")
    others = [played("-S", control, "lab-1", "--", "true"), played("-S", other, "-f", "-N", "-M", "lab-1")]
    for process in (master, *others):
        assert process.stdout is not None
        process.stdout.readline()  # it is what its words say
    os.kill(master.pid, signal.SIGSTOP)
    assert ssh.kill(control) == [master.pid]
    assert master.wait(60) == -signal.SIGKILL
    assert ssh.kill(control) == []
    assert [process.communicate(b"\n")[0] for process in others] == [b"", b""]
    assert [process.returncode for process in others] == [0, 0]


@pytest.mark.usefixtures("state")
def test_a_process_that_stopped_while_it_connected_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    link = SshLink("lab-1", tmp_path / "ssh", lock_s=0.1)
    link.forward("/run/console.sock")
    with (link.folder / f"{link._name('lab-1')}.lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(LabTransientError, match=f"{os.getpid()}.*-CONT {os.getpid()}") as caught:
            link.forward("/run/console.sock")
    assert caught.value.failure == "console_link"
    assert link.forward("/run/console.sock").exists()


@pytest.mark.usefixtures("state")
def test_processes_that_take_turns_at_a_host_that_is_down_are_not_blamed_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = SshLink("lab-1", tmp_path / "ssh")
    link.forward("/run/console.sock")
    lock = link.folder / f"{link._name('lab-1')}.lock"

    def others_have_it(_file: int, _limit_s: float) -> bool:
        os.utime(lock, ns=(1, 1))  # another one has written his number
        return False

    monkeypatch.setattr(ssh.locks, "take", others_have_it)
    with pytest.raises(LabTransientError, match=r"others.*is the host up") as caught:
        link.forward("/run/console.sock")
    assert "kill" not in str(caught.value)
