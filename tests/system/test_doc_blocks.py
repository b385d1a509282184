"""The shell blocks of the documents, typed in their order as a reader would; another line has its reason."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from support.doc_blocks import DOCS, REASONS, all_lines, lines

from lab.results import open_store

# In a lab with a simulated board and thirteen runs, of which 9 and 12 are diagnosed.
IN_A_LAB: Final = (
    *("boot-time.md", "console.md", "failures.md", "farm/health.md", "farm/reservations.md", "farm/runs.md"),
    *("judge.md", "lab-failures.md", "results.md", "terminal.md", "adding-a-board.md", "web-access.md"),
    *(
        "getting-started.md",
        "farm/one-host.md",
        "farm/remote-boards.md",
        "first-day.md",
        "farm/backup.md",
        "farm/upgrade.md",
    ),
)
# In an empty folder, without anything before.
ALONE: Final = (
    *("measure.md", "simulated-boards.md", "virtual-boards.md", "low-power.md"),
    *("farm/without-root.md", "farm/uninstall.md"),
)
# Blocks of a page that its reader saves as files: name, language, a line of it.
FILES: Final = {
    "measure.md": (
        ("test_first_frame.py", "python", "def test_first_frame("),
        ("test_stop.py", "python", "def test_stop("),
        ("metrics.toml", "toml", 'name = "camera.stop"'),
    ),
    "simulated-boards.md": (("builds.py", "python", "from lab.virtual.sim.firmware import"),),
}
_BOARD: Final = "am62xx_sk-1"
_DEADLINE_S: Final = 900  # `lab ab` of two releases takes six minutes
_OK: Final = {"lab doctor": {0, 1}, "lab judge": {0, 1}, "lab run --env am62x.yaml --judge": {0, 3, 4}}
_LOG: Final = "U-Boot SPL 2023.04 (Sep 05 2023)\r\n\r\nU-Boot 2023.04 (Sep 05 2023)\r\n\r\nStarting kernel ...\r\n\r\nacme login: "


def environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LAB_", "BOARDLAB_"))}
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "LAB_DB": str(folder / "results.db"),
        "BOARDLAB_RUNTIME": str(folder / "runtime"),
        "PYTEST_ADDOPTS": "--lab-cycles=1 --lab-medium=sd -p no:cacheprovider",
    }


def type_line(text: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", text],
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        cwd=folder,
        env={**environment(folder), **more},
        timeout=_DEADLINE_S,
    )


def must(text: str, folder: Path, **more: str) -> None:
    done = type_line(text, folder, **more)
    good = next((codes for words, codes in _OK.items() if text.startswith(words)), {0})
    assert done.returncode in good, f"{text}: {done.returncode}\n{done.stdout[-1500:]}\n{done.stderr[-1500:]}"


def of_this_lab(text: str, folder: Path) -> str:
    """A line with this lab's names in place of the page's."""
    tomorrow = (dt.datetime.now(dt.UTC) + dt.timedelta(days=1)).strftime("%Y-%m-%d 14:00")
    names = {
        "/mnt/backup": f"{folder}/backup",
        "am62x-sk-1": _BOARD,
        "am62x-1": _BOARD,
        "2026-03-02 14:00": tomorrow,
        "--cycles 20": "--cycles 2",
        " j12": " j1",
        "delete 57": "delete 6",
        "--count 64": "--count 4",
    }
    for theirs, ours in names.items():
        text = text.replace(theirs, ours)
    return text


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lab with a simulated board that boots in a fiftieth of its time, and its runs 1 to 13."""
    folder = tmp_path_factory.mktemp("lab")
    must("lab init . --board-type am62xx_sk && rm farm.yaml", folder)
    must(
        "lab virtual up sim --type am62xx_sk --time-scale 0.02 --pdu-port 0 --switch-port 0 && cp .lab/virtual/env.yaml envs/am62x.yaml",
        folder,
    )
    (folder / "backup").mkdir()
    for name in ("boot.log", "other.log"):
        (folder / name).write_text(_LOG, newline="")
    measure = "pytest -q --lg-env am62x.yaml tests_perf/test_boot.py --lab-release"
    for number in range(1, 14):
        if number in {10, 13}:
            continue  # the diagnoses of 9 and 12
        if number in {5, 7, 8, 9, 12}:
            release = "11.00" if number == 5 else "11.01"
            more = " --lab-where" if number in {9, 12} else ""
            cycles = " --lab-cycles 3 --lab-medium sd,emmc" if number == 7 else ""
            must(f"{measure} {release}{more}{cycles}", folder)
        else:
            with open_store(str(folder / "results.db")) as store:
                run = store.begin_run("boot", "am62xx_sk", _BOARD, "10.00", plan={}, provenance={})
                store.finish_run(run.id, "interrupted")
    yield folder
    for end in ("lab virtual down", "lab console stop", "lab farm down"):
        type_line(end, folder)


def test_every_shell_line_is_run_or_has_a_reason() -> None:
    run = {line.page for line in all_lines() if not line.reason}
    assert run == {*IN_A_LAB, *ALONE} & {line.page for line in all_lines()}
    used = {line.reason for line in all_lines()}
    assert used - {""} == set(REASONS.values()), "a reason that no line has is gone"


@pytest.mark.soak
@pytest.mark.parametrize("page", IN_A_LAB)
def test_a_pages_lines_work_in_a_lab(page: str, lab: Path) -> None:
    for line in lines(DOCS / page):
        if line.reason:
            continue
        more = (
            {"LAB_DB": str(lab / f"restored-{page.replace('/', '-')}.db")}
            if line.text == "lab restore /mnt/backup"
            else {}
        )
        must(of_this_lab(line.text, lab), lab, **more)


@pytest.mark.soak
@pytest.mark.parametrize("page", ALONE)
def test_a_pages_lines_work_in_an_empty_folder(page: str, tmp_path: Path) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    for name, language, line_in_it in FILES.get(page, ()):
        blocks = (part.split("```")[0] for part in text.split(f"```{language}\n")[1:])
        (block,) = (block for block in blocks if line_in_it in block)
        (tmp_path / name).write_text(block)
    try:
        for line in lines(DOCS / page):
            if not line.reason:
                must(of_this_lab(line.text, tmp_path), tmp_path)
    finally:
        for end in ("lab virtual down", "lab console stop", "lab farm down"):
            type_line(end, tmp_path)
