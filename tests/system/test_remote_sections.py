"""`lab run` measures a section on a board of another host: the place is taken and given back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.measuring_lab import ROOT, running_lab
from support.placedboard import BOARD, running_place

from lab.places.coordinator import Coordinator
from lab.results import open_store

pytestmark = pytest.mark.soak

DEADLINE_S = 500


def test_sections_with_and_without_the_tester_are_measured_and_the_place_is_given_back(tmp_path: Path) -> None:
    words = ("sim", "--type", "am62xx_sk", "--time-scale", "0.02")
    with running_lab(tmp_path / "sim", *words) as lab, running_place(lab, tmp_path) as (env, coordinator):
        text = yaml.safe_load(env.read_text())
        text["options"] = {"coordinator_address": coordinator}
        env.write_text(yaml.safe_dump(text))
        order = ("run", "--env", str(env), "--sections", "stream,usb-device", "--cycles", "1")
        done = subprocess.run(
            [Path(sys.executable).with_name("lab"), *order],
            env=lab.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert Coordinator(coordinator).holder(BOARD) == ""
        with open_store(lab.environ["LAB_DB"]) as store:
            run = store.runs()[0]
            assert (run.kind, run.status) == ("sections", "completed")
            metrics = {sample.metric for sample in store.samples(run.id)}
        assert any(metric.startswith("stream.") for metric in metrics), metrics
