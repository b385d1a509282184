"""The five guides of the family, read once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from support import guide_family

from lab.guide import measurements
from lab.guide.compare import comparison as compare
from lab.guide.compare.comparison import Comparison
from lab.guide.measurements import MeasuredGuide
from lab.guide.model import Guide
from lab.guide.read import reader


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
