"""Programs of others that tests start, without what costs time at their start and none uses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from lab.virtual import pdudaemon

DEADLINE_S: Final = 110  # of a busy host; pytest gives up after 120
LEAN: Final = "-p no:schemathesis -p no:hypothesispytest"  # for PYTEST_ADDOPTS
_PDUDAEMON: Final = """\
#!{python}
import sys
from types import ModuleType


class Absent(ModuleType):
    def __getattr__(self, name):
        return Absent(name)


SSH, MODBUS = ("paramiko", "paramiko.ssh_exception"), ("pymodbus", "pymodbus.client")
SNMP = ("pysnmp", "pysnmp.hlapi", "pysnmp.hlapi.v3arch", "pysnmp.hlapi.v3arch.asyncio")
for name in (*SSH, *MODBUS, *SNMP, "usb", "usb.core", "usb.util"):
    sys.modules[name] = Absent(name)

from pdudaemon import main

sys.exit(main())
"""


def lean_pdudaemon(folder: Path) -> Path:
    """The pdudaemon of this checkout without switches at ssh, Modbus, SNMP and USB: half of what its start costs."""
    program = folder / "pdudaemon"
    program.write_text(_PDUDAEMON.format(python=pdudaemon.home() / "bin" / "python"), encoding="utf-8")
    program.chmod(0o755)
    return program


def session(folder: Path, results: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """pytest in a folder, with its results in another one."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words],
        cwd=folder,
        env={**os.environ, "LAB_DB": str(results / "results.db"), "PYTEST_ADDOPTS": LEAN},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
