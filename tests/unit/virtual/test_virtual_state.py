from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from lab.errors import ConfigurationError, LabStableError
from lab.virtual import state
from lab.virtual.state import BenchBoard, BenchState

STATE = BenchState(
    pid=42,
    http="127.0.0.1:1",
    pdudaemon="127.0.0.1:2",
    boards=[BenchBoard("qemu-1", "qemu-virt", 1, {"uart0": "/x/uart0"}, "/x/straps", "/x/truth.log")],
)


def test_a_running_bench_is_found_with_all_it_told(tmp_path: Path) -> None:
    lock = state.hold(tmp_path)
    assert lock is not None
    with lock:
        assert state.running(tmp_path) is None  # it is not ready yet
        state.publish(tmp_path, STATE)
        assert state.running(tmp_path) == STATE
        assert state.expect(tmp_path) == STATE


def test_what_a_killed_bench_left_is_not_believed(tmp_path: Path) -> None:
    lock = state.hold(tmp_path)
    assert lock is not None
    state.publish(tmp_path, STATE)
    lock.close()  # as the kernel does for a killed process
    assert state.running(tmp_path) is None
    with pytest.raises(ConfigurationError, match=r"`lab virtual up`"):
        state.expect(tmp_path)


def test_only_one_bench_has_a_folder(tmp_path: Path) -> None:
    lock = state.hold(tmp_path)
    assert lock is not None
    with lock:
        assert state.hold(tmp_path) is None


def test_a_bench_waits_for_those_who_only_look(tmp_path: Path) -> None:
    looking = state.hold(tmp_path)
    assert looking is not None
    timer = threading.Timer(0.05, looking.close)
    timer.start()
    lock = state.hold(tmp_path, patience_s=20)
    assert lock is not None
    lock.close()
    timer.join()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "many"}'])
def test_a_state_that_cannot_be_understood_is_named(tmp_path: Path, text: str) -> None:
    lock = state.hold(tmp_path)
    assert lock is not None
    with lock:
        (tmp_path / "bench.json").write_text(text)
        with pytest.raises(LabStableError, match=r"bench\.json: .*understood"):
            state.running(tmp_path)


def test_a_folder_that_is_not_there_has_no_bench(tmp_path: Path) -> None:
    assert state.running(tmp_path / "none") is None


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_folder_that_others_may_enter_is_not_believed(tmp_path: Path, mode: int) -> None:
    lock = state.hold(tmp_path)
    assert lock is not None
    with lock:
        state.publish(tmp_path, STATE)
        tmp_path.chmod(mode)
        with pytest.raises(ConfigurationError, match="chmod 700"):
            state.running(tmp_path)


def test_another_users_folder_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = state.hold(tmp_path)
    assert lock is not None
    with lock:
        state.publish(tmp_path, STATE)  # its `pid` would be sent a signal by `lab virtual down`
        other = os.getuid() + 1
        monkeypatch.setattr(os, "getuid", lambda: other)
        with pytest.raises(ConfigurationError, match=f"belongs to user {other - 1}, not to {other}"):
            state.running(tmp_path)


def test_a_link_to_a_folder_of_ours_is_ours(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir(mode=0o700)
    (tmp_path / "bench").symlink_to(tmp_path / "there")
    state.require_private(tmp_path / "bench")
    with pytest.raises(ConfigurationError, match=r"another.*--dir"):
        state.require_private(tmp_path / "nowhere")
