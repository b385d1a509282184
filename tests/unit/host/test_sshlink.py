"""One ssh connection per host: ending one leaves the others alone, and a forward without a socket is made again."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lab.errors import ConfigurationError, LabTransientError
from lab.host.sshlink import SshLink

# What ssh does with its control socket and forwards; `kept`: the master says that it has the forward, and makes no socket. `refuses`: it
# makes none, as ssh does where the socket's path is too long.
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
    first, second = one.forwarded("/run/console.sock"), two.forwarded("/run/console.sock")
    one.reset()
    assert not first.exists()
    assert second.exists()
    one._control.unlink(missing_ok=True)
    one.forwarded("/run/console.sock")  # connects again
    assert second.exists()


@pytest.mark.usefixtures("state")
def test_a_connection_that_another_reader_has_made_since_stays(tmp_path: Path) -> None:
    link = SshLink("lab-1", tmp_path / "ssh")
    link.forwarded("/run/console.sock")
    silent = link.generation()
    link.reset(silent)
    local = link.forwarded("/run/console.sock")
    link.reset(silent)
    assert local.exists()
    assert link.generation() not in {"", silent}
    link.reset(link.generation())
    assert link.generation() == ""


def test_a_forward_whose_socket_is_gone_is_made_again(tmp_path: Path, state: Path) -> None:
    link = SshLink("lab-1", tmp_path / "ssh")
    (state / "kept").touch()
    assert link.forwarded("/run/console.sock").exists()
    assert (state / "asked").read_text().split()[-3:] == ["forward", "cancel", "forward"]


def test_a_forward_that_makes_no_socket_is_the_links_fault(tmp_path: Path, state: Path) -> None:
    (state / "kept").touch()
    (state / "stuck").touch()
    with pytest.raises(LabTransientError, match="does not make") as caught:
        SshLink("lab-1", tmp_path / "ssh").forwarded("/run/console.sock")
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
    with pytest.raises(ConfigurationError, match="set BOARDLAB_RUNTIME to a folder with a shorter path"):
        SshLink("lab-1", folder).forwarded("/run/console.sock")
