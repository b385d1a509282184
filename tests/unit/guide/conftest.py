"""The five guides of the family, read once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from support import guide_family, recorded_run
from support.guide_family import mini, table
from support.guide_library import RELEASES, SK, put

from lab.guide import measurements
from lab.guide.compare import comparison as compare
from lab.guide.compare.comparison import Comparison
from lab.guide.measurements import MeasuredGuide
from lab.guide.model import Guide
from lab.guide.read import reader
from lab.results import Store, open_store


@pytest.fixture(scope="session")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    return guide_family.family(tmp_path_factory.mktemp("guides"))


@pytest.fixture(scope="session")
def guides(paths: Mapping[str, Path]) -> Mapping[str, Guide]:
    return {name: reader.read(path) for name, path in paths.items()}


@pytest.fixture(scope="session")
def sheets(guides: Mapping[str, Guide]) -> Mapping[str, MeasuredGuide]:
    return {name: measurements.of_guide(guide) for name, guide in guides.items()}


@pytest.fixture(scope="session")
def comparison(sheets: Mapping[str, MeasuredGuide]) -> Comparison:
    return compare.compare(sheets["am62x-09.02.rst"], sheets["am62x-11.01.rst"])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "results.db")) as opened:
        yield opened


@pytest.fixture(scope="session")
def folder(paths: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with all five guides; copied by whoever adds to it."""
    folder = tmp_path_factory.mktemp("library")
    with open_store(str(folder / "results.db")) as opened:
        for name, release in RELEASES.items():
            put(opened, paths[name], release, SK if name == "am62x-11.01.rst" else None)
    return folder


@pytest.fixture(scope="session")
def library(folder: Path) -> Iterator[Store]:
    with open_store(str(folder / "results.db")) as opened:
        yield opened


@pytest.fixture(scope="session")
def measured(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The same, and a run that was measured here."""
    copy = tmp_path_factory.mktemp("measured") / "store"
    shutil.copytree(folder, copy)
    with open_store(str(copy / "results.db")) as opened:
        recorded_run.record(opened, virtual=False, cycles=6)
        yield opened


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.rst"
    path.write_text(
        mini(
            table(
                'Boot Configuration,"am62xx_sk-fs: Boot time in seconds: avg(min,max)"',
                'Linux boot time from MMCSD,"16.24 (min 15.96, max 16.42)"',
                title="Linux boot time",
            )
        )
    )
    return path
