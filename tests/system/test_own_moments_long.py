"""Boots of the QEMU board, timed to the line of an application that a user has put on its SD card."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.measuring_lab import ROOT, running_lab
from support.qemu_boards import extend

from lab.metrics import Flag
from lab.virtual.images.filetree import RegularFile
from lab.virtual.qemu import rootfs

pytestmark = pytest.mark.soak

CYCLES = 20
APPLICATION_S = 1
DEADLINE_S = 3000
START = f"#!/bin/sh\nsleep {APPLICATION_S}\necho 'myapp: ready' > /dev/console\n"
METRICS = """
[[metric]]
name = "app.ready"
pattern = "myapp: ready"

[[metric]]
name = "app.start"
pattern = "myapp: ready"
since = "starting_kernel"
"""


def install(card: Path, folder: Path) -> None:
    """Put the application on the card."""
    inittab = rootfs.data("inittab") + b"::once:/etc/init.d/myapp\n"
    tree = {"etc/inittab": RegularFile(inittab), "etc/init.d/myapp": RegularFile(START.encode(), 0o755)}
    extend(card, tree, folder)


@pytest.mark.timeout(DEADLINE_S + 600)
def test_twenty_boots_have_the_users_moment_beside_the_guides(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "metrics.toml").write_text(METRICS)
    with running_lab(tmp_path, "qemu") as lab:
        install(lab.bench.folder / "qemu-1" / "media" / "sd.img", tmp_path)
        words = (ROOT / "tests_perf" / "test_boot.py", "--lab-medium", "sd", "--lab-cycles", str(CYCLES))
        env = lab.bench.folder / "env.yaml"
        lab.passes(tmp_path / "own", "--lg-env", env, *words, "--lab-retries", "5", timeout_s=DEADLINE_S)
        guide, ready, start = (lab.samples(name) for name in ("boot.time", "app.ready", "app.start"))
    assert [sample.cycle for sample in ready] == [sample.cycle for sample in guide] == list(range(1, CYCLES + 1))
    for boot, whole, own in zip(guide, ready, start, strict=True):
        assert whole.value > own.value > boot.value, "the application starts with the login and takes a second"
        assert own.value - boot.value < APPLICATION_S + 60
        assert own.uncertainty < 0.5
        assert Flag.SIMULATED in own.flags
