"""Two releases with other kernels on three media of a QEMU board: written by real ways, proved by what boots, labelled by their files."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from support import children
from support.facts import missing_facts, was_provisioned
from support.measuring_lab import ROOT, Lab, running_lab
from support.placedboard import running_place

from lab.env.power_state import parts
from lab.provision.release import Content, Part, PartPlace
from lab.provision.releasefile import load
from lab.provision.writer import WriteTarget
from lab.results import open_store
from lab.virtual.images import cache
from lab.virtual.qemu import releases

LAB = Path(sys.executable).with_name("lab")
CYCLES = 3
MEDIA = ("sd", "emmc", "ospi")
BEGUN, WITHIN = r": 0 %", r": [1-9]\d? %"  # progress
DEADLINE_S = 900  # a busy machine; a quiet one takes a tenth of it

pytestmark = [pytest.mark.soak, pytest.mark.timeout(2400)]  # the images are built when they are not there


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the release files 1.0 (Debian's kernel) and 1.1 (its cloud kernel)."""
    folder = tmp_path_factory.mktemp("releases")
    for name, kernel in (("1.0", releases.FIRST), ("1.1", releases.OTHER)):
        releases.write(folder, name, cache.default_root(), print, kernel=kernel)
    return folder


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp("provision"), "--network") as lab:
        yield lab


FROM_LINUX = """\
      - LinuxWriterDriver:
          media: {media}
          boot_from: {boot_from}
          server: 10.0.2.2
          port: 0
{more}"""
NVME, RAM_MEDIA = "{emmc: /dev/nvme0n1}", "{sd: /dev/vda, emmc: /dev/nvme0n1, ospi: /dev/mtd0}"


def linux_writes(lab: Lab, media: str, boot_from: str, more: str = "") -> Path:
    """The board's environment, with a Linux that writes before all other drivers."""
    text, strange = (lab.folder / "bench" / "env.yaml").read_text(), "      - VirtualSDMuxDriver"
    assert strange in text
    driver = FROM_LINUX.format(media=media, boot_from=boot_from, more=f"          {more}\n" if more else "")
    path = lab.folder / "bench" / f"linux-{boot_from}.yaml"
    path.write_text(text.replace(strange, driver + strange, 1))
    return path


def command(lab: Lab, *words: str | Path, env: Path | None = None) -> subprocess.Popen[str]:
    environ = {**lab.environ, "LAB_ENV": str(env or lab.folder / "bench" / "env.yaml")}
    return subprocess.Popen(
        [LAB, *map(str, words)], env=environ, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def done(lab: Lab, *words: str | Path, env: Path | None = None) -> str:
    child = command(lab, *words, env=env)
    said = children.said(child, DEADLINE_S)
    assert child.returncode == 0, said
    return said


def multiplexer(lab: Lab, place: str) -> dict[str, Any]:
    with requests.Session() as session:
        session.trust_env = False
        said: dict[str, Any] = session.put(
            f"http://{lab.bench.state.http}/boards/{lab.bench.board.name}/sdmux", data=place, timeout=30
        ).json()
    return said


def test_two_releases_are_put_on_three_media_and_each_run_has_the_label_and_the_kernel_of_its_own(
    lab: Lab, files: Path
) -> None:
    kernels = {}
    for name, media in (("1.1", MEDIA), ("1.0", MEDIA)):
        only = [word for medium in media for word in ("--medium", medium)]
        said = done(lab, "provision", "--release", files / f"{name}.yaml", *only)
        for medium in media:
            assert was_provisioned(said, medium, name), said
        done(lab, "run", "--cycles", str(CYCLES), *only)
        with open_store(lab.environ["LAB_DB"]) as store:
            run = store.runs(1)[0]
            assert run.release == name
            assert {sample.params["medium"] for sample in store.samples(run.id, "boot.time")} == set(media)
            kernels[name] = json.dumps([attempt.details.get("software") for attempt in store.attempts(run.id)])
    assert "cloud" in kernels["1.1"]
    assert "cloud" not in kernels["1.0"]
    judged = command(lab, "judge", "compare", "latest", "--against", "1.1", "--all")
    said = children.said(judged, DEADLINE_S)
    assert judged.returncode in (0, 1), (
        said
    )  # 1: a number is worse for sure, as other kernels may be, and a busy machine makes them
    assert "boot.time" in said
    assert not missing_facts(said, "release 1.0", "release 1.1")


def test_the_boards_own_linux_writes_a_medium_that_it_does_not_run_from(lab: Lab, files: Path) -> None:
    env = linux_writes(lab, NVME, "sd", "prepare: /etc/init.d/network")
    said = done(lab, "provision", "--release", files / "1.0.yaml", "--medium", "emmc", env=env)
    assert not missing_facts(said, "linux-http", "/dev/nvme0n1"), said
    assert was_provisioned(said, "emmc", "1.0"), said


def test_the_linux_of_a_board_of_a_labgrid_place_writes_over_http(
    lab: Lab, files: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, folder = linux_writes(lab, NVME, "sd", "prepare: /etc/init.d/network"), tmp_path_factory.mktemp("place")
    done(lab, "console", "stop")  # the port is that of the place's console server now
    with running_place(lab, folder, lab.bench.board.name, here) as (env, coordinator):
        monkeypatch.setitem(lab.environ, "LG_COORDINATOR", coordinator)
        said = done(lab, "provision", "--release", files / "1.0.yaml", "--medium", "emmc", env=env)
    assert not missing_facts(said, "linux-http", "/dev/nvme0n1"), said
    assert was_provisioned(said, "emmc", "1.0"), said


def test_a_linux_in_memory_writes_the_medium_that_the_board_comes_from(lab: Lab, files: Path) -> None:
    env = linux_writes(lab, RAM_MEDIA, "ram")
    media = MEDIA
    only = [word for medium in media for word in ("--medium", medium)]
    said = done(lab, "provision", "--release", files / "1.1.yaml", *only, env=env)
    for medium in media:
        assert f"{medium}: by ram-linux-http to " in said, said
        assert was_provisioned(said, medium, "1.1"), said


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("ram: {arguments: rdinit=/nothing init=/nothing}", "Kernel panic"),
        ("prepare: ip addr flush dev eth0", "could not load it"),
        ("ram: {kernel: /etc/hostname, initramfs: /etc/hostname}", "neither an arm64 Image nor"),
    ],
)
def test_a_linux_in_memory_that_cannot_write_is_refused_before_the_first_byte(
    lab: Lab, files: Path, more: str, said: str
) -> None:
    env = linux_writes(lab, RAM_MEDIA, "ram", more)
    child = command(lab, "provision", "--release", files / "1.0.yaml", "--medium", "emmc", env=env)
    words = children.said(child, DEADLINE_S)
    assert child.returncode != 0
    assert said in words, words
    assert " 0 %" not in words, words


def test_the_card_of_a_board_that_is_on_is_not_taken_away(lab: Lab) -> None:
    assert lab.bench.power("on") == 200
    try:
        assert "is on" in multiplexer(lab, "host")["error"]
    finally:
        assert lab.bench.power("off") == 200
    assert multiplexer(lab, "dut") == {"state": "dut"}


@pytest.mark.parametrize("medium", MEDIA)
def test_a_write_that_is_killed_leaves_a_board_that_the_next_one_recovers(lab: Lab, files: Path, medium: str) -> None:
    killed_and_done(lab, files, medium, BEGUN)


@pytest.mark.parametrize(("medium", "place"), [("sd", WITHIN), ("emmc", WITHIN), ("ospi", BEGUN)])
def test_a_linux_in_memory_whose_write_is_killed_leaves_a_board_that_the_next_one_recovers(
    lab: Lab, files: Path, medium: str, place: str
) -> None:
    said = killed_and_done(lab, files, medium, place, linux_writes(lab, RAM_MEDIA, "ram"))
    assert f"{medium}: by ram-linux-http to " in said


def killed_and_done(lab: Lab, files: Path, medium: str, place: str, env: Path | None = None) -> str:
    """kill -9 of a provisioning that says a progress like `place`; the next one does it. What that said."""
    words = ("provision", "--release", files / "1.1.yaml", "--medium", medium)
    child = command(lab, *words, env=env)
    assert child.stdout is not None
    heard = list(itertools.takewhile(lambda line: not re.search(place, line), child.stdout))
    child.send_signal(signal.SIGKILL)
    assert child.wait(DEADLINE_S) == -signal.SIGKILL, f"it had ended by itself: {''.join(heard)}"
    child.stdout.close()
    said = done(lab, *words, env=env)
    assert was_provisioned(said, medium, "1.1")
    return said


def test_a_linux_in_memory_writes_flash_and_volumes_by_mtd_utils(
    lab: Lab, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in lab.environ.items():
        monkeypatch.setenv(name, value)
    _, strategy, _ = parts(str(linux_writes(lab, "{ospi: mtd}", "ram")), "ConsoleProtocol", "console", "console")
    strategy.recovery = load(files / "1.0.yaml").recovery
    writer = strategy.writers()["ospi"]
    volume = PartPlace(mtd="ospi", volume="rootfs")
    try:
        for number, to in enumerate(
            (volume, volume, PartPlace(mtd="ospi"))
        ):  # no UBI there; UBI and the volume; over all of it
            data = random.Random(number).randbytes(1_300_000)
            (tmp_path / "part").write_bytes(data)
            digest = hashlib.sha256(data).hexdigest()
            part = Part(name="part", source=str(tmp_path / "part"), sha256=digest, size=len(data), to=to)
            plan = writer.plan(Content(parts=[part]), WriteTarget(strategy.board, strategy.type.name, "ospi"))
            writer.write(plan, lambda _progress: None)
            assert writer.verify(plan).digest == digest
    finally:
        strategy.transition("off")
