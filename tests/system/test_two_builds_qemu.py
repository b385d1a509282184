"""Builds of the QEMU board that differ by a module's sleep: which part differs, whether they differ, and since which build."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
from pathlib import Path

import pytest
from support.board_releases import said
from support.measuring_lab import Lab, running_lab
from support.qemu_boards import extend

from lab.benchmarks.diagnosis.parts import changes
from lab.judge.boot_breakdown import BootBreakdown, read_breakdowns
from lab.results import open_store
from lab.results.records import AB, BISECT
from lab.virtual.images import cache, debian
from lab.virtual.images.filetree import RegularFile, Tree
from lab.virtual.qemu import recipe, rootfs

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

CHANGES = 20
NAME = "boardlab_slow"
PART = f"{NAME}_init [{NAME}]"
MODULE = f"""\
#include <linux/delay.h>
#include <linux/module.h>
static unsigned int ms;
module_param(ms, uint, 0444);
static int __init {NAME}_init(void)
{{
	msleep(ms);
	return 0;
}}
module_init({NAME}_init);
MODULE_LICENSE("GPL");
"""
FROM_COMMAND_LINE = "$(sed -n 's/.*slow_ms=\\([0-9]*\\).*/\\1/p' /proc/cmdline)"
WITHIN = ("--effect", "20", "--jitter", "6")  # per cent: at most 12 pairs; a busy host's boots vary much
# The guest's clock counts its instructions, 62.5 million a second, and waits for the host's: a busy host moves no part.
COUNTED = """\
#!/bin/sh
case " $* " in *" -machine "*) set -- "$@" -icount shift=4,align=on,sleep=on ;; esac
exec {qemu} "$@"
"""


def with_module(ms: str) -> Tree:
    """Files of a root file system that loads the module, which sleeps so long."""
    packages = recipe.sources(cache.default_root(), print)
    module = debian.build(NAME, MODULE.encode(), sorted(packages.glob("headers-*.deb")))
    load = f"insmod /lib/modules/{NAME}.ko ms={ms}\nhostname -F"
    start = rootfs.data("sysinit").replace(b"hostname -F", load.encode())
    return {"etc/init.d/sysinit": RegularFile(start, 0o755), f"lib/modules/{NAME}.ko": RegularFile(module)}


def card(folder: Path, name: str, ms: str, *, with_network: bool = False) -> Path:
    """The image of a card of such a build."""
    images = recipe.obtain(cache.default_root(), print, with_network=with_network)
    shutil.copyfile(images / "sd.img", folder / name)
    extend(folder / name, with_module(ms), folder)
    return folder / name


def medium(lab: Lab) -> Path:
    return lab.bench.folder / "qemu-1" / "media" / "sd.img"


def test_a_module_that_sleeps_50_ms_longer_is_named_first_and_alone_in_19_of_20(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "qemu-system-aarch64"
    program.write_text(COUNTED.format(qemu=shutil.which(program.name)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    cards = {ms: card(tmp_path, f"{ms}.img", str(ms)) for ms in (10, 60)}
    with running_lab(tmp_path, "qemu") as lab:
        for _, ms in zip(range(CHANGES + 1), itertools.cycle(cards), strict=False):
            shutil.copyfile(cards[ms], medium(lab))
            said(lab, "run", "--medium", "sd", "--cycles", "1", "--where", "--retries", "5")
        with open_store(lab.environ["LAB_DB"]) as store:
            runs = [run for run in reversed(store.runs()) if run.kind == "boot"]
            found: list[BootBreakdown] = [each for run in runs for each in read_breakdowns(store, run.id)]
    assert len(found) == CHANGES + 1
    named = [[each.name for each in changes(one.parts, other.parts)] for one, other in itertools.pairwise(found)]
    assert named.count([PART]) >= 0.95 * CHANGES, named
    assert {name for names in named for name in names} == {PART}, named


def test_builds_are_told_apart_and_a_build_is_no_other_than_itself(tmp_path: Path) -> None:
    with running_lab(tmp_path, "qemu") as lab:
        shutil.copyfile(card(tmp_path, "slots.img", FROM_COMMAND_LINE), medium(lab))
        slots = [f"setenv xargs slow_ms={ms}" for ms in (0, 4000)]
        text = said(lab, "ab", "--slots", *slots, "--medium", "sd", *WITHIN)
        assert "\ndifferent: B is +" in text
        same = (said(lab, "ab", "--same", "--medium", "sd", *WITHIN) for _ in range(2))  # one in 25 is a false alarm
        assert any("different: " not in text for text in same)
        with open_store(lab.environ["LAB_DB"]) as store:
            assert {(run.kind, run.status) for run in store.runs()} == {(AB, "completed")}


def test_the_first_bad_build_is_found(tmp_path: Path) -> None:
    builds = []
    for number, ms in enumerate((0, 0, 4000, 4000)):
        image = card(tmp_path, f"{number}.img", str(ms), with_network=True)
        digest = hashlib.sha256(image.read_bytes()).hexdigest()
        sd = {"image": {"source": image.name, "sha256": digest, "size": image.stat().st_size}}
        document = {"boards": ["qemu-virt"], "media": {"sd": sd}, "identity": {"kernel": r"Linux version 6\.1\."}}
        builds.append(tmp_path / f"build-{number}.yaml")
        builds[-1].write_text(json.dumps(document))
        os.utime(builds[-1], (number, number))
    with running_lab(tmp_path, "qemu", "--network") as lab:
        words = ("--good", builds[0], "--bad", builds[-1], "--medium", "sd", "--effect", "10")
        text = said(lab, "bisect", *words)
        assert "first bad build: build-2 (" in text, text
        with open_store(lab.environ["LAB_DB"]) as store:
            assert {(run.kind, run.status) for run in store.runs()} == {(BISECT, "completed")}
