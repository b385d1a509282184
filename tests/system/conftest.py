"""One lab host for all tests here, since it takes half a minute to set up."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from support.labhost import LabHost, lab_host
from support.machine import NSPAWN


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabHost]:
    assert os.geteuid() == 0, "systemd-nspawn wants root: run this environment as root"
    assert shutil.which(NSPAWN), "apt install systemd-container"
    with lab_host(tmp_path_factory.mktemp("machine")) as found:
        yield found
