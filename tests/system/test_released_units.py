"""The units of a schedule with `every: release`, run by systemd: a release file that appears is put on the board and measured, once."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
import yaml
from attrs import frozen
from support.labhost import BOARDS, LAB, ROOT, USER, LabHost, farm, write

pytestmark = pytest.mark.soak

FARM_FILE = "/etc/boardlab/released.yaml"
FOLDER, MEDIA = LAB / "releases", "/var/lib/boardlab/media"
PATH, TIMER, SERVICE = (f"boardlab-new.{kind}" for kind in ("path", "timer", "service"))
ENDED = "ExecMainExitTimestampMonotonic"
MANY = 12  # files, each of which systemd notices


@pytest.fixture(scope="module")
def watched(host: LabHost) -> LabHost:
    """The host, which watches its folder of releases; what is put on the board is written into files."""
    inside = host.machine.root / LAB.relative_to("/")
    env = yaml.safe_load((inside / "envs" / f"{BOARDS[0]}.yaml").read_text(encoding="utf-8"))
    env["targets"]["main"]["drivers"].append({"PlayedWriterDriver": {"folder": MEDIA, "media": ["sd"]}})
    env["imports"] = [*env.get("imports", []), str(LAB / "playedwriter.py")]
    write(host.machine, LAB / "envs" / "written.yaml", yaml.safe_dump(env))
    shutil.copy(ROOT / "tests" / "support" / "playedwriter.py", inside)
    schedule = {
        "name": "new",
        "env": "written.yaml",
        "board": BOARDS[0],
        "cycles": 1,
        "medium": "sd",
        "every": "release",
        "release": f"newest in {FOLDER.name}",
    }
    write(host.machine, Path(FARM_FILE), yaml.safe_dump(farm() | {"schedules": [schedule]}))
    host.machine.run("mkdir", str(FOLDER))
    host.machine.run("install", "-d", "-o", USER, MEDIA)
    host.machine.run(
        f"{LAB}/.venv/bin/lab", "farm", "units", FARM_FILE, "--farm", FARM_FILE, "--output", "/run/released"
    )
    host.machine.run("cp", *(f"/run/released/{unit}" for unit in (PATH, TIMER, SERVICE)), "/etc/systemd/system")
    host.machine.run("systemctl", "daemon-reload")
    host.machine.run("systemctl", "enable", "--quiet", "--now", PATH, TIMER)
    host.machine.wait(lambda: "those that come from now on" in said(host), "the first look")
    # systemd does not watch a folder while what it started there runs; what appears then is found by the timer, minutes later.
    host.machine.wait(lambda: host.unit(SERVICE, "ActiveState") == "inactive", "the end of the first look")
    return host


@frozen
class Looked:
    """Whether the folder was looked at since, or is watched no more."""

    host: LabHost
    before: str

    def __call__(self) -> bool:
        return self.host.unit(PATH, "ActiveState") == "failed" or self.host.unit(SERVICE, ENDED) != self.before


def said(host: LabHost) -> str:
    """What its service wrote."""
    return host.machine.run("journalctl", "-u", SERVICE, "-o", "cat").stdout


def appear(host: LabHost, release: str) -> None:
    """Copy a release into the folder: the file last, as `lab release make` does."""
    image = f"image of {release}"
    write(host.machine, FOLDER / f"{release}.wic", image)
    part = {"source": f"{release}.wic", "sha256": hashlib.sha256(image.encode()).hexdigest()}
    identity = {"kernel": "Linux version 6"}
    document = {"boards": ["am62xx_sk"], "media": {"sd": {"image": part}}, "identity": identity}
    write(host.machine, FOLDER / f"{release}.yaml", yaml.safe_dump(document))


def labels(host: LabHost) -> list[str]:
    """The releases of completed runs, the newest first."""
    return [run["release"] for run in host.listed() if run["status"] == "completed"]


def test_a_release_that_appears_is_measured_once(watched: LabHost) -> None:
    before = labels(watched)
    appear(watched, "11.01")
    watched.machine.wait(lambda: labels(watched) == ["11.01", *before], "a measured release")
    watched.machine.wait(lambda: watched.unit(SERVICE, "ActiveState") == "inactive", "its end")
    assert watched.machine.run("cat", f"{MEDIA}/sd").stdout == "image of 11.01"


def test_many_files_that_come_one_after_another_do_not_end_the_watch(watched: LabHost) -> None:
    before = labels(watched)
    for number in range(MANY):
        write(watched.machine, FOLDER / f"{number}.img", "image of no release")
        watched.machine.wait(Looked(watched, watched.unit(SERVICE, ENDED)), "a look at the folder")
    appear(watched, "11.02")
    watched.machine.wait(lambda: labels(watched) == ["11.02", *before], "a measured release")
    assert watched.unit(PATH, "ActiveState") == "active"
