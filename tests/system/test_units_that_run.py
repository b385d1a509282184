"""The units of a lab host, run by systemd: they serve, measure on a timer, come again after kills and a lost power, and tell who failed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.labhost import (
    ALERTMANAGER,
    BOARDS,
    COORDINATOR,
    CYCLES,
    FARM_FILE,
    LAB,
    METRICS,
    PORTS,
    SERVICES,
    SITE,
    USER,
    LabHost,
    write,
)

pytestmark = pytest.mark.soak

KILLED = tuple(name for name in SERVICES if "export.service" not in name)  # what a kill alone ends
NIGHTLY = "boardlab-nightly-1.service"


def fetched(host: LabHost, url: str) -> str:
    """A page, from there."""
    return host.machine.run("curl", "--silent", "--fail", "--show-error", "--max-time", "30", url).stdout


def serves(host: LabHost) -> bool:
    """Whether every program of the host answers."""
    asked = (f"http://{SITE}/", f"http://{METRICS}/metrics")
    pages = all(host.machine.run("curl", "-sf", "-o", "/dev/null", url, check=False).returncode == 0 for url in asked)
    console = host.lab("console", "list", check=False).returncode == 0
    client = f"{LAB}/.venv/bin/labgrid-client"
    listed = host.machine.run(client, "-x", COORDINATOR, "resources", check=False).stdout.splitlines()
    return pages and console and sum(f"/{BOARDS[1]}/" in line for line in listed) == len(PORTS)


def active(host: LabHost) -> bool:
    """Whether systemd calls all services active."""
    return host.machine.run("systemctl", "is-active", "--quiet", *SERVICES, check=False).returncode == 0


def alerts(host: LabHost) -> set[str]:
    """The units of which Alertmanager was told that they failed."""
    listed = json.loads(fetched(host, f"http://{ALERTMANAGER}/api/v2/alerts"))
    return {alert["labels"]["unit"] for alert in listed if alert["labels"]["alertname"] == "BoardlabUnitFailed"}


def test_every_service_is_active_and_answers(host: LabHost) -> None:
    host.machine.wait(lambda: active(host) and serves(host), "all services")


def test_lab_doctor_finds_all_that_farm_yaml_has_the_host_run(host: LabHost) -> None:
    """As `lab farm check` asks through ssh: as the services' user, without their environment."""
    host.machine.wait(lambda: active(host) and serves(host), "all services")

    def found() -> dict[str, str]:
        words = ("env", "--chdir", str(LAB), f"{LAB}/.venv/bin/lab", "doctor", "--json", "--farm", FARM_FILE)
        listed = json.loads(host.machine.run(*words, check=False, user=USER).stdout)
        return {each["subject"]: each["level"] for each in listed if each["area"] == "services"}

    programs = ("console server", "coordinator", "export", "exporter", "janitor", "pdudaemon", "rails", "web")
    assert {name: found().get(name) for name in programs} == dict.fromkeys(programs, "ok")
    host.machine.run("systemctl", "stop", "boardlab-janitor.service")
    try:
        assert found()["janitor"] == "bad"
    finally:
        host.machine.run("systemctl", "start", "boardlab-janitor.service")


def test_a_service_that_is_killed_is_there_again_and_somebody_is_told(host: LabHost) -> None:
    host.machine.wait(lambda: active(host) and serves(host), "all services")
    before = {name: host.unit(name, "MainPID") for name in KILLED}
    host.machine.run("systemctl", "kill", "--signal", "KILL", "--kill-whom", "main", *KILLED)
    host.machine.wait(
        lambda: all(host.unit(name, "MainPID") not in {"0", before[name]} for name in KILLED), "new processes"
    )
    host.machine.wait(lambda: active(host) and serves(host), "all services")
    host.machine.wait(lambda: set(KILLED) <= alerts(host), "an alert for each")


def test_an_exporter_ends_with_its_coordinator_and_comes_again_with_it(host: LabHost) -> None:
    host.machine.wait(lambda: active(host) and serves(host), "all services")
    restarts = int(host.unit("boardlab-export.service", "NRestarts"))
    console = host.unit("boardlab-console.service", "MainPID")
    host.machine.run("systemctl", "restart", "boardlab-coordinator.service")
    host.machine.wait(lambda: int(host.unit("boardlab-export.service", "NRestarts")) > restarts, "a new exporter")
    host.machine.wait(lambda: active(host) and serves(host), "all services")
    assert host.unit("boardlab-console.service", "MainPID") == console


def test_a_run_comes_due_by_its_timer_and_ends_with_its_samples(host: LabHost) -> None:
    host.machine.wait(lambda: active(host) and serves(host), "all services")
    before = host.runs()
    due = (datetime.now(tz=UTC) + timedelta(seconds=3)).strftime("%Y-%m-%d %H:%M:%S UTC")
    host.machine.run("systemctl", "start", "boardlab-nightly-1.timer")
    assert host.unit("boardlab-nightly-1.timer", "NextElapseUSecRealtime").endswith("UTC")
    sooner = f"[Timer]\nOnCalendar=\nOnCalendar={due}\nRandomizedDelaySec=0\nAccuracySec=1s\n"
    write(host.machine, Path("/etc/systemd/system/boardlab-nightly-1.timer.d/sooner.conf"), sooner)
    host.machine.run("systemctl", "daemon-reload")
    host.machine.run("systemctl", "restart", "boardlab-nightly-1.timer")
    host.machine.wait(lambda: host.runs() == [("boot", "completed"), *before], "a measured run")
    host.machine.wait(lambda: host.unit(NIGHTLY, "ActiveState") == "inactive", "its end")
    assert host.unit(NIGHTLY, "Result") == "success"
    kept = host.machine.run("find", "/var/cache/boardlab/python", "-path", "*/lab/*", "-name", "*-pytest-*.pyc").stdout
    assert kept, "pytest compiles all of boardlab anew each night"


def test_a_run_that_fails_is_told_to_alertmanager(host: LabHost) -> None:
    failing = "boardlab-nightly-2.service"
    assert failing not in alerts(host)
    host.machine.run("mv", f"{LAB}/envs/{BOARDS[1]}.yaml", f"{LAB}/envs/away.yaml")
    try:
        assert host.machine.run("systemctl", "start", failing, check=False).returncode != 0
    finally:
        host.machine.run("mv", f"{LAB}/envs/away.yaml", f"{LAB}/envs/{BOARDS[1]}.yaml")
    host.machine.wait(lambda: failing in alerts(host), "an alert")
    assert f"envs/{BOARDS[1]}.yaml" in host.machine.run("journalctl", "-u", failing, "-o", "cat").stdout


def test_a_run_that_lost_its_power_goes_on_after_the_next_boot(host: LabHost) -> None:
    before = host.runs()
    host.machine.run("systemctl", "start", "--no-block", NIGHTLY)
    host.machine.wait(lambda: len(host.runs()) > len(before) and samples(host) > 0, "a first cycle")
    host.machine.power_off()
    host.machine.boot()
    host.machine.wait(lambda: active(host) and serves(host), "all services, by themselves")
    assert host.runs()[0][1] != "completed"
    host.machine.run("systemctl", "start", NIGHTLY)
    assert host.runs() == [("boot", "completed"), *before]
    assert samples(host) == CYCLES


def samples(host: LabHost) -> int:
    """Boot times of the newest run."""
    (run, *_) = json.loads(host.lab("results", "list", "--json").stdout)
    listed = host.lab("results", "show", str(run["id"]), "--json", check=False)
    if listed.returncode != 0:
        return 0
    attempts = json.loads(listed.stdout)["attempts"]
    return sum(sample["metric"] == "boot.time" for attempt in attempts for sample in attempt["samples"])
