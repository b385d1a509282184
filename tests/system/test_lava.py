"""LAVA's dispatcher runs the example job of farm/lava on a virtual board, through our console and our power switch.

It downloads Debian's packages, and lava-run wants to be root.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.measuring_lab import Lab, running_lab

pytestmark = pytest.mark.soak

LAVA = Path(__file__).parents[2] / "farm" / "lava"
DEADLINE_S = 600


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp("qemu")) as lab:
        yield lab


@pytest.fixture(scope="module")
def lava_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert os.geteuid() == 0, "lava-run wants to be root: run it as root"
    folder = tmp_path_factory.mktemp("lava")
    subprocess.run([LAVA / "unpack", folder], check=True, timeout=DEADLINE_S)
    return folder / "lava-run"


def test_the_example_job_boots_the_board_and_passes(lab: Lab, lava_run: Path, tmp_path: Path) -> None:
    lab.bench.set_straps(1)
    assert lab.bench.power("off") == 200
    device = tmp_path / "device.yaml"
    text = (LAVA / "device.yaml").read_text()
    for ours, theirs in (("@port@", lab.bench.board.uarts["uart0"]), ("@env@", str(lab.bench.folder / "env.yaml"))):
        assert ours in text
        text = text.replace(ours, theirs)
    device.write_text(text)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # where LAVA finds `lab`
    words = ("--job-id", "boardlab-1", "--output-dir", tmp_path / "job", "--device", device, LAVA / "boot.yaml")
    done = subprocess.run(
        [lava_run, *words],
        env={**lab.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    messages = [json.loads(line) for line in done.stderr.splitlines()]
    results = {each["msg"]["case"]: each["msg"]["result"] for each in messages if each["lvl"] == "results"}
    assert {results[case] for case in ("pdu-reboot", "login-action", "kernel", "uptime", "power-off", "job")} == {
        "pass"
    }
    assert "Linux aarch64" in [each["msg"] for each in messages if each["lvl"] == "target"]
    assert lab.bench.status()["power"] == "off"
