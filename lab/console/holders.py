"""Who holds a port, as far as /proc lets this user see."""

from __future__ import annotations

import os
from pathlib import Path


def holders(device: Path, proc: Path = Path("/proc")) -> list[str]:
    """Other processes that have the device open, as "pid 123 (minicom)"; empty when none can be seen."""
    target = device.resolve()
    found = []
    for entry in proc.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if any(fd.readlink() == target for fd in (entry / "fd").iterdir()):
                found.append(f"pid {entry.name} ({(entry / 'comm').read_text(encoding='utf-8').strip()})")
        except OSError:  # it ended meanwhile, or belongs to somebody else
            continue
    return sorted(found)
