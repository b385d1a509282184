"""Builds a release and checks it: `./run release`.

The commit that sets `__version__` in lab/__init__.py, with a section of the changelog, is the release; later commits give
`1.0.0+5.g1a2b3c4` (tools/version.py). dist/ gets the sdist, the wheel that is built from it, an SBOM (CycloneDX, of uv.lock)
and SHA256SUMS. The wheel is installed into an empty environment of each Python, without a compiler and without this checkout.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from uv import find_uv_bin

from lab.package_data import SITE

ROOT: Final = Path(__file__).resolve().parents[1]
PYTHONS: Final = ("3.11", "3.12", "3.13")
SBOM: Final = "boardlab.cdx.json"
SUMS: Final = "SHA256SUMS"
ENV: Final = "sim-am62x.yaml"  # of a simulated board, which needs no edits
_RELEASED: Final = re.compile(r"\d+\.\d+\.\d+")
_NO_COMPILER: Final = {"CC": "/bin/false", "CXX": "/bin/false", "FC": "/bin/false"}
_OURS: Final = ("PYTHONPATH", "VIRTUAL_ENV", "LAB_", "BOARDLAB_", "UV_PROJECT", "UV_FROZEN", "UV_PYTHON")
_IMPORTS: Final = """
import importlib, pkgutil, sys, lab, exporters, lab.package_data
assert (lab.package_data.folder(lab.package_data.SITE) / "index.html").is_file(), "no documents for `lab web`"
extras = {"gpiod", "can", "pyftdi", "psycopg", "obstore", "buildbot"}
for package in (lab, exporters):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if "lab_folder" in module.name or module.name.endswith("migrations.env") or ".versions." in module.name:
            continue
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if error.name.partition(".")[0] not in extras:
                raise
"""


def run(*words: str | Path, cwd: Path = ROOT, **environ: str) -> str:
    """Run a program and return its output.

    Raises:
        SystemExit: it failed; the message has its words.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    done = subprocess.run(
        [*map(str, words)], cwd=cwd, env={**own, **environ}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(
            f"release: {' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    return done.stdout


def build(folder: Path) -> Path:
    """Build the documents, the sdist with them, and the wheel from it; return the wheel."""
    for old in (*folder.glob("boardlab-*"), folder / SBOM, folder / SUMS):  # and nothing else that is there
        old.unlink(missing_ok=True)
    run(sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--clean", "--site-dir", ROOT / SITE)
    run(find_uv_bin(), "build", "--quiet", "--out-dir", folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def check(wheel: Path, python: str, work: Path) -> str:
    """Install the wheel into an empty environment and try its commands; return the Python's version."""
    venv, lab = work / python, work / f"lab-{python}"
    uv = find_uv_bin()
    run(uv, "venv", "--quiet", "--python", python, venv, cwd=work, UV_PYTHON_DOWNLOADS="automatic")
    run(uv, "pip", "install", "--quiet", "--python", venv, wheel, cwd=work, **_NO_COMPILER)
    home = {"HOME": str(work), "XDG_DATA_HOME": str(work / "data"), "PATH": f"{venv / 'bin'}:{os.environ['PATH']}"}
    said = run("lab", "--version", cwd=work, **home).split()[-1]
    wanted = wheel.name.split("-")[1]
    if said != wanted:
        raise SystemExit(f"release: the wheel is {wanted}, and `lab --version` says {said}")
    run("lab", "init", lab, "--sim", cwd=work, **home)
    run(venv / "bin" / "python", "-c", _IMPORTS, cwd=lab, **home)
    run("pytest", "--collect-only", "-q", "--lg-env", f"envs/{ENV}", "tests_perf", cwd=lab, **home)
    return run(venv / "bin" / "python", "--version", cwd=work).split()[-1]


def changes(version: str, text: str) -> str:
    """The changelog's section of a released version.

    Raises:
        SystemExit: there is none.
    """
    if not _RELEASED.fullmatch(version):
        return ""
    found = re.search(rf"^## {re.escape(version)}\b.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise SystemExit(
            f"release: CHANGELOG.md has no section `## {version}`; it belongs to the commit that sets the version"
        )
    return found[0]


def sums(folder: Path) -> str:
    """SHA-256 of each file, as sha256sum(1) checks them."""
    files = sorted(folder.glob("boardlab*"))
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def main() -> None:
    """Build, check, and write what belongs to a release."""
    parser = argparse.ArgumentParser(prog="./run release", description="Build a release into dist/ and check it.")
    parser.add_argument(
        "--python", action="append", metavar="X.Y", help=f"check with it (default: {', '.join(PYTHONS)})"
    )
    parser.add_argument("--output", type=Path, default=ROOT / "dist", metavar="DIR", help="folder (default: dist)")
    asked = parser.parse_args()
    wheel = build(asked.output.absolute())
    version = wheel.name.split("-")[1]
    changes(version, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="boardlab-release-") as work:
        for python in asked.python or PYTHONS:
            sys.stdout.write(f"{wheel.name}: works with Python {check(wheel, python, Path(work))}\n")
            sys.stdout.flush()
    bom = run(
        find_uv_bin(),
        "export",
        "--quiet",
        "--frozen",
        "--no-default-groups",
        "--all-extras",
        "--format",
        "cyclonedx1.5",
    )
    (asked.output / SBOM).write_text(bom, encoding="utf-8")
    (asked.output / SUMS).write_text(sums(asked.output), encoding="utf-8")
    sys.stdout.write((asked.output / SUMS).read_text(encoding="utf-8"))
    if not _RELEASED.fullmatch(version):
        sys.stdout.write(f"{version} is no release: that is the commit that sets __version__ in lab/__init__.py\n")


if __name__ == "__main__":
    main()
