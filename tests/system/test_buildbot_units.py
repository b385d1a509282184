"""Buildbot's units, run by systemd: a build measures, and master and worker come again after kills and a lost power."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.labhost import BOARDS, LAB, LabHost, farm, write

pytestmark = pytest.mark.soak

QUEUE_FILE = "/etc/boardlab/queue.yaml"
FOLDER = "/var/lib/boardlab/buildbot"
PAGES, WORKERS = "127.0.0.1:8010", "127.0.0.1:9989"
UNITS = ("boardlab-buildbot.service", "boardlab-worker.service")


@pytest.fixture(scope="module")
def queue(host: LabHost) -> LabHost:
    """The host, with Buildbot's units beside the others, as docs/farm/buildbot.md has a person do as root."""
    document = farm() | {
        "schedules": [],
        "boards": [{"name": board, "env": f"{board}.yaml"} for board in BOARDS],
        "buildbot": {"program": f"{LAB}/.cache/buildbot/bin/buildbot", "www": PAGES, "workers": WORKERS},
    }
    write(host.machine, Path(QUEUE_FILE), yaml.safe_dump(document))
    program = f"{LAB}/.venv/bin/lab"
    host.machine.run(program, "farm", "buildbot", QUEUE_FILE, "--output", FOLDER)
    host.machine.run(program, "farm", "units", QUEUE_FILE, "--output", "/run/queue")
    host.machine.run("cp", *(f"/run/queue/{unit}" for unit in UNITS), "/etc/systemd/system")
    host.machine.run("systemctl", "daemon-reload")
    host.machine.run("systemctl", "enable", "--quiet", "--now", *UNITS)
    return host


def asked(queue: LabHost, path: str) -> Any:
    """What Buildbot's HTTP interface answers; nothing while it is away."""
    said = queue.machine.run("curl", "-s", "--max-time", "30", f"http://{PAGES}/api/v2/{path}", check=False).stdout
    try:
        return json.loads(said)
    except ValueError:
        return {}


def connected(queue: LabHost) -> bool:
    """Whether the worker is at the master."""
    workers = asked(queue, "workers").get("workers", [])
    return bool(workers) and all(worker["connected_to"] for worker in workers)


def order(queue: LabHost, cycles: int) -> int:
    """Start a build by hand, as the user who may; its request."""
    secrets = json.loads(queue.machine.run("cat", f"{FOLDER}/master/secrets.json").stdout)
    cookies, user = "/run/cookies", f"lab:{secrets['users']['lab']}"
    queue.machine.run("curl", "-sf", "-c", cookies, "-u", user, f"http://{PAGES}/auth/login")
    builders = {each["name"]: each["builderid"] for each in asked(queue, "builders")["builders"]}
    given = {"builderid": builders[BOARDS[0]], "suite": "boot", "cycles": cycles, "medium": "sd"}
    body = json.dumps({"id": 1, "jsonrpc": "2.0", "method": "force", "params": given})
    url = f"http://{PAGES}/api/v2/forceschedulers/measure"
    words = ("curl", "-sf", "-b", cookies, "-H", "Content-Type: application/json", "-d", body, url)
    _, made = json.loads(queue.machine.run(*words).stdout)["result"]
    (request,) = made.values()
    return int(request)


def ended(queue: LabHost, request: int) -> int | None:
    """The result of a request; None: it has none yet, or Buildbot is away."""
    found = asked(queue, f"buildrequests/{request}").get("buildrequests", [])
    return int(found[0]["results"]) if found and found[0]["complete"] else None


def test_a_build_measures_a_board(queue: LabHost) -> None:
    queue.machine.wait(lambda: connected(queue), "the worker")
    before = queue.runs()
    request = order(queue, cycles=1)
    queue.machine.wait(lambda: ended(queue, request) is not None, "the end of the build")
    assert (ended(queue, request), queue.runs()) == (0, [("boot", "completed"), *before])


def test_what_is_killed_comes_again_and_a_build_that_lost_the_power_of_its_host_goes_on(queue: LabHost) -> None:
    queue.machine.wait(lambda: connected(queue), "the worker")
    pids = {name: queue.unit(name, "MainPID") for name in UNITS}
    queue.machine.run("systemctl", "kill", "--signal", "KILL", "--kill-whom", "main", *UNITS)
    queue.machine.wait(
        lambda: all(queue.unit(name, "MainPID") not in {"0", pid} for name, pid in pids.items()), "new processes"
    )
    queue.machine.wait(lambda: connected(queue), "the worker")
    before = queue.runs()
    request = order(queue, cycles=2)
    queue.machine.wait(lambda: len(queue.runs()) > len(before), "a run")
    queue.machine.power_off()
    queue.machine.boot()
    queue.machine.wait(lambda: ended(queue, request) is not None, "the end of the build, by itself")
    assert (ended(queue, request), queue.runs()) == (0, [("boot", "completed"), *before])
