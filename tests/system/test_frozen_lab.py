"""Boot times while the console server, its disk, the bench or the host's clocks stand still: true within ±, or it is said."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.atlength import either
from support.measuring_lab import ROOT, Lab, running_lab
from support.virtual_bench import DEADLINE_S

from lab.console import ConsoleClient, Recording
from lab.errors import ConfigurationError
from lab.host.runtime import recordings_dir, socket_path
from lab.results import Attempt, open_store

pytestmark = pytest.mark.soak

SAMPLES = either(48, 96)  # one round of each kind of freeze, or two, of six boards; the documented table takes 500
SLACK_MS = 5  # of a host that runs other tests beside; what a freeze leaves behind is longer
BENCH_S = 900
BOARD = "am62xx_sk-1"
FROZEN_S = 1.5
STARTED = rb"Starting kernel \.\.\."
TIME_FLAGS = {"clock_disagrees", "console_overrun", "uncertain"}


def test_no_frozen_boot_gives_a_wrong_number_without_a_flag(tmp_path: Path) -> None:
    found = tmp_path / "samples.json"
    command = [
        sys.executable,
        "-m",
        "support.freeze",
        "--samples",
        str(SAMPLES),
        "--slack-ms",
        str(SLACK_MS),
        "--json",
        str(found),
    ]
    done = subprocess.run(command, cwd=ROOT / "tests", capture_output=True, text=True, timeout=BENCH_S, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    samples = json.loads(found.read_text())
    assert len(samples) == SAMPLES
    verdicts = {sample["verdict"] for sample in samples}
    assert verdicts <= {"inside ±", "just beside", "flagged", "refused", "unseen"}
    assert sum(sample["verdict"] == "inside ±" for sample in samples) > 0  # it does not refuse whatever comes


def recorded(lab: Lab) -> bytes:
    """What the console server has recorded of the board."""
    for log in recordings_dir(lab.folder / "runtime").glob("*.log"):
        try:
            return Recording.open(log).log
        except ConfigurationError:  # just being created
            continue
    return b""


def attempts(lab: Lab) -> list[Attempt]:
    with open_store(lab.environ["LAB_DB"]) as store:
        return store.attempts(store.runs()[0].id)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp("stopped"), "sim", "--type", "am62xx_sk", "--time-scale", "0.15") as lab:
        yield lab


@pytest.mark.parametrize("marker", [b"U-Boot SPL 20", b"Starting kernel ...", b"Booting Linux"])
def test_a_session_whose_console_server_is_stopped_measures_the_truth_or_says_that_it_cannot(
    lab: Lab, marker: bytes
) -> None:
    booted, said = len(lab.bench.truth().find(STARTED)), recorded(lab).count(marker)
    session = lab.pytest(
        "--lg-env", str(lab.bench.folder / BOARD / "env.yaml"), "--lab-cycles", "1", "--lab-medium", "sd"
    )
    deadline = time.monotonic() + DEADLINE_S
    while recorded(lab).count(marker) == said:
        assert session.poll() is None, lab.log
        assert time.monotonic() < deadline, f"{marker!r} did not come"
        time.sleep(0.01)
    with ConsoleClient(socket_path(lab.folder / "runtime")) as client:
        server = client.status().pid
    os.kill(server, signal.SIGSTOP)
    time.sleep(FROZEN_S)  # the freeze itself
    os.kill(server, signal.SIGCONT)
    assert session.wait(DEADLINE_S) == pytest.ExitCode.OK, lab.log
    truth = lab.bench.truth()
    starts, prompts = truth.find(STARTED)[booted:], truth.find(rb"(?<=\n)am62xx-evm login: ")
    done = attempts(lab)
    assert done[-1].ok, lab.log
    assert {attempt.outcome for attempt in done[:-1]} <= {"stamps_uncertain"}
    for number, attempt in enumerate(done):
        begin_ns = starts[number]
        end_ns = next(t_ns for t_ns in prompts if t_ns > begin_ns)
        for sample in attempt.samples:
            if sample.metric == "boot.time":
                error_s = abs(sample.value - (end_ns - begin_ns) / 1e9)
                assert error_s <= sample.uncertainty or sample.flags & TIME_FLAGS
