"""U-Boot's own test/py on a virtual board, through farm/uboot-test-hooks."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from support.measuring_lab import Lab, running_lab

HOOKS: Final = Path(__file__).parents[2] / "farm" / "uboot-test-hooks"
NAMES: Final = {"qemu-virt": "qemu_arm64", "bpim2u": "Bananapi_M2_Ultra", "sifive_u": "sifive_unleashed"}
DEADLINE_S: Final = 300


@contextlib.contextmanager
def lab_with_hooks(folder: Path, name: str, *words: str) -> Iterator[Lab]:
    """A board that the hooks find by the name that U-Boot has for it; `words` go to `lab virtual up`."""
    with running_lab(folder / "bench", "--idle-off", "0", *words) as lab:
        (folder / f"{name}.yaml").symlink_to(lab.bench.folder / "env.yaml")
        programs = (HOOKS / "bin", Path(sys.executable).parent, os.environ["PATH"])
        modules = (HOOKS / "py", os.environ.get("PYTHONPATH", ""))
        lab.environ |= {
            "BOARDLAB_ENVS": str(folder),
            "BOARDLAB_TFTP": str(lab.bench.folder / lab.bench.board.name / "tftp"),
            "PATH": os.pathsep.join(map(str, programs)),
            "PYTHONPATH": os.pathsep.join(map(str, modules)),
        }
        yield lab


def powered(lab: Lab) -> list[str]:
    """What the power switch did."""
    return [event.state for event in lab.bench.truth().power]


def run_suite(lab: Lab, folder: Path, parts: Sequence[str] = ("",)) -> list[tuple[str, str]]:
    """Fetch the tests into a folder and run some, in this order; returns the module and the name of each that passed.

    The expected ones fail, and no others.
    """
    name = NAMES[lab.bench.board.type]
    fetch = ["lab", "virtual", "uboot-tests", folder, "--type", lab.bench.board.type]
    subprocess.run(fetch, env=lab.environ, timeout=DEADLINE_S, check=True)
    tests = folder / "u-boot" / "test" / "py" / "tests"
    options = ["-p", "boardlab_expected", f"--junitxml={folder}/results.xml"]
    options += [f"--expected-failures={HOOKS}/expected/{name}.toml", f"--result-dir={folder}/result"]
    board = [f"--board-type={name}", f"--build-dir={folder}/build"]
    lab.passes(folder, *options, *board, *(tests / part for part in parts), timeout_s=DEADLINE_S)
    cases = ET.parse(folder / "results.xml").findall(".//testcase")
    return [(c.get("classname", "").rpartition(".")[2], c.get("name", "")) for c in cases if not len(c)]
