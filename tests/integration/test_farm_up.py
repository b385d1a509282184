"""`lab farm up`: real programs under a real supervisord, measured on, killed, and taken down."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests
from support.facts import missing_facts

from lab.farm import config
from lab.results import open_store
from lab.virtual.ports import free_port

LAB = Path(sys.executable).with_name("lab")
DEADLINE_S = 120


def lab(folder: Path, *words: str, code: int = 0) -> str:
    done = subprocess.run(
        [LAB, *words], cwd=folder, check=False, capture_output=True, text=True, timeout=DEADLINE_S * 3
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def processes(folder: Path) -> list[int]:
    found = []
    for process in psutil.process_iter():
        try:
            words = " ".join(process.cmdline())
        except psutil.Error:
            continue
        if str(folder) in words:
            found.append(process.pid)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a farm is brought up; nothing of it runs afterwards."""
    yield tmp_path
    lab(tmp_path, "farm", "down")
    deadline = time.monotonic() + DEADLINE_S
    while processes(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes(tmp_path) == []


def states(folder: Path, *file: str) -> dict[str, Any]:
    return {one["program"]: one for one in json.loads(lab(folder, "farm", "status", *file, "--json"))}


def test_a_farm_of_simulated_boards_measures_and_is_mended_and_taken_down(folder: Path) -> None:
    said = lab(folder, "farm", "up", "--count", "2", "--time-scale", "0.02")
    farm = config.load(folder / ".lab" / "farm" / "farm.yaml")
    assert [schedule.board for schedule in farm.schedules] == ["am62xx_sk-1", "am62xx_sk-2"]
    exports = dict(line.split()[1].split("=", 1) for line in said.splitlines() if line.startswith("  export "))
    env = folder / ".lab" / "farm" / "virtual" / "am62xx_sk-2" / "env.yaml"
    subprocess.run(
        [LAB, "run", "--cycles", "1", "--medium", "sd", "--env", env],
        cwd=folder,
        env={**os.environ, **exports},
        check=True,
        timeout=DEADLINE_S * 3,
    )
    with open_store(farm.database) as store:
        assert store.runs(1)[0].board == "am62xx_sk-2"
    looked = subprocess.run(
        [LAB, "status", "--json"],
        cwd=folder,
        env={**os.environ, **exports},
        check=True,
        capture_output=True,
        timeout=DEADLINE_S,
    )
    seen = json.loads(looked.stdout)
    services = {each["name"]: (each["state"], each["said"]) for each in seen["services"]}
    assert services["pdudaemon"] == ("ok", f"listens at {farm.pdudaemon.address}"), "no other user's"
    assert services["exporter"] == ("ok", f"listens at {farm.exporter.listen}")
    assert {each["board"]: each["state"] for each in seen["boards"]} == {
        "am62xx_sk-1": "never reached",
        "am62xx_sk-2": "free",
    }
    with requests.Session() as session:
        session.trust_env = False
        assert "boardlab_" in session.get(f"http://{farm.exporter.listen}/metrics", timeout=DEADLINE_S).text
        assert "am62xx_sk-2" in session.get(f"http://{farm.web.listen}/", timeout=DEADLINE_S).text
    assert "am62xx_sk-1" in lab(folder, "farm", "status")
    assert "Already up" in lab(folder, "farm", "up")
    before = states(folder)
    os.kill(before["exporter"]["pid"], signal.SIGKILL)
    deadline = time.monotonic() + DEADLINE_S
    while (now := states(folder))["exporter"]["pid"] in {before["exporter"]["pid"], 0} and time.monotonic() < deadline:
        time.sleep(0.1)
    assert now["exporter"]["pid"] not in {before["exporter"]["pid"], 0}
    assert {name: one["pid"] for name, one in now.items() if name != "exporter"} == {
        name: one["pid"] for name, one in before.items() if name != "exporter"
    }
    assert "serving" in lab(folder, "farm", "logs", "exporter")
    run = subprocess.Popen([LAB, "run", "--cycles", "50", "--env", env], cwd=folder, env={**os.environ, **exports})
    with open_store(farm.database) as store:
        deadline = time.monotonic() + DEADLINE_S
        while not (runs := store.runs(1)) or runs[0].status != "running":
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert "The farm is down" in lab(folder, "farm", "down")
        assert run.wait(DEADLINE_S) == 130, "it was ended as by Ctrl-C"
        assert store.runs(1)[0].status == "interrupted"


@pytest.fixture
def own(folder: Path) -> Iterator[Path]:
    """The farm.yaml of a lab's own folder, whose farm is down afterwards."""
    folder.chmod(0o700)
    yield folder / "farm.yaml"
    lab(folder, "farm", "down", "farm.yaml")


def farm_file(folder: Path, web: str, more: str = "") -> str:
    listen = f"exporter: {{listen: '127.0.0.1:{free_port()}'}}\n"
    return f"database: sqlite:///{folder}/r.db\n{listen}web: {{listen: '{web}', {more}}}\n"


@pytest.mark.soak  # tests/unit/farm/test_farm_local.py has one that cannot be started
def test_a_program_that_does_not_start_is_named_with_its_reason(own: Path) -> None:
    own.write_text(farm_file(own.parent, f"127.0.0.1:{free_port()}", "web_config: /no/such.yml"))
    said = lab(own.parent, "farm", "up", "farm.yaml", code=1)
    assert "web does not run: " in said
    assert "/no/such.yml" in said
    assert "lab farm logs web" in said
    assert states(own.parent, "farm.yaml")["exporter"]["state"] == "RUNNING"


def test_a_port_that_another_program_has_is_named_before_anything_starts(own: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        own.write_text(farm_file(own.parent, f"127.0.0.1:{port}"))
        assert not missing_facts(
            lab(own.parent, "farm", "up", "farm.yaml", code=2), "another program", f"127.0.0.1:{port}"
        )
    assert processes(own.parent) == []
