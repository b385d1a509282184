"""Programs whose packages cannot stand beside ours: each in an environment of its own, which uv fills and keeps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / ".cache" / "tools"
LIMIT_S = 600


def programs_of(*requirements: str) -> Path:
    """The folder of the programs of these packages, e.g. `moto[server]==5.2.5`; the first one names the environment."""
    environment = FOLDER / requirements[0]
    uv = [sys.executable, "-m", "uv"]
    online = {name: value for name, value in os.environ.items() if name != "UV_OFFLINE"}  # `./run` sets it for tox
    if not (environment / "complete").exists():
        subprocess.run([*uv, "venv", "--quiet", "--clear", environment], check=True, timeout=LIMIT_S, env=online)
        into = ["--python", environment / "bin" / "python"]
        subprocess.run(
            [*uv, "pip", "install", "--quiet", *into, *requirements], check=True, timeout=LIMIT_S, env=online
        )
        (environment / "complete").touch()
    return environment / "bin"
