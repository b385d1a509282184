"""`lab doctor`: every fault of a lab host is found, and comes with its mend."""

from __future__ import annotations

import datetime as dt
import json
import os
import resource
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.facts import missing_facts

from lab import package_data
from lab.cli import doctor as command
from lab.cli import main
from lab.console.holders import PortHolder
from lab.farm import config, services
from lab.farm.checks import Finding, files, machine, results
from lab.farm.checks.registry import DOCTOR, CheckTarget, examine
from lab.host import process
from lab.host.clock import utc_now
from lab.jobs.queue import JobQueue, Order
from lab.jobs.records import BY_WEB, LEASE_S
from lab.results import open_store
from lab.terminal import Marked


def adapter(root: Path, name: str, latency_ms: str | None = "1") -> Path:
    """A USB adapter as udev and sysfs show it."""
    (root / "dev").mkdir(exist_ok=True)
    device = root / "dev" / name
    device.touch()
    if latency_ms is not None:
        folder = root / "sys/bus/usb-serial/devices" / name
        folder.mkdir(parents=True)
        (folder / "latency_timer").write_text(f"{latency_ms}\n")
    return device


def of_ports(root: Path, *open_devices: Path) -> list[Finding]:
    return list(machine.ports({str(path) for path in open_devices}, (), root / "dev", root / "sys"))


def test_a_good_adapter_is_well(tmp_path: Path) -> None:
    device = adapter(tmp_path, "ttyUSB0")
    (found,) = of_ports(tmp_path, device)
    assert (found.level, found.subject) == ("ok", str(device))
    assert not missing_facts(found.said, "open", "latency timer 1 ms")


def test_an_adapter_that_is_not_open_may_have_any_latency(tmp_path: Path) -> None:
    adapter(tmp_path, "ttyUSB0", "16")
    adapter(tmp_path, "ttyACM0", None)
    without, slow = of_ports(tmp_path)
    assert (without.level, slow.level) == ("ok", "ok")
    assert not missing_facts(without.said, "free", "no latency timer")
    assert not missing_facts(slow.said, "free", "16 ms", "to 1")


def test_an_adapter_that_is_open_and_slow_is_bad(tmp_path: Path) -> None:
    device = adapter(tmp_path, "ttyUSB0", "16")
    (found,) = of_ports(tmp_path, device)
    assert found.level == "bad"
    assert f"tee {tmp_path}/sys/bus/usb-serial/devices/ttyUSB0/latency_timer" in found.hint


def test_a_port_that_this_user_may_not_open_names_the_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter(tmp_path, "ttyUSB0")
    monkeypatch.setattr(os, "access", lambda *_: False)
    (found,) = of_ports(tmp_path)
    assert (found.level, found.area) == ("bad", "ports")
    assert "sudo usermod -aG " in found.hint


def test_a_stranger_at_a_port_is_bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter(tmp_path, "ttyUSB0")
    stranger = PortHolder(4711, "ModemManager", "root")
    monkeypatch.setattr(machine, "holders", lambda *_: [stranger, PortHolder(1, "writer", "root", reads=False)])
    (found,) = of_ports(tmp_path)
    assert (found.level, "ModemManager" in found.said, "kill 4711" in found.hint) == ("bad", True, True)


def test_a_host_without_adapters_is_well(tmp_path: Path) -> None:
    assert [each.level for each in of_ports(tmp_path)] == ["ok"]


def clocksource(root: Path, name: str) -> Path:
    folder = root / "devices/system/clocksource/clocksource0"
    folder.mkdir(parents=True)
    (folder / "current_clocksource").write_text(f"{name}\n")
    return root


@pytest.mark.parametrize(
    ("state", "source", "levels"),
    [
        (0, "tsc", ["ok", "ok"]),
        (5, "tsc", ["doubtful", "ok"]),
        (0, "hpet", ["ok", "doubtful"]),
        (-1, "tsc", ["ok"]),  # nobody can ask
    ],
)
def test_clocks(tmp_path: Path, state: int, source: str, levels: list[str]) -> None:
    found = list(machine.clocks(clocksource(tmp_path, source), lambda: state))
    assert [each.level for each in found] == levels
    assert all(each.hint for each in found if each.level != "ok")


def test_the_kernels_clock_can_be_asked() -> None:
    assert machine.clock_state() in range(-1, 6)


@pytest.mark.parametrize(
    ("limit", "uid", "level"),
    [(0, 1000, "doubtful"), (10, 1000, "ok"), (99, 1000, "ok"), (resource.RLIM_INFINITY, 1000, "ok"), (0, 0, "ok")],
)
def test_the_priority_of_the_console_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, uid: int, level: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    (found,) = machine.timing(tmp_path / "absent", lambda _which: (limit, limit))
    assert (found.level, bool(found.hint)) == (level, level != "ok")


def test_processors_that_may_not_be_kept_awake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpu_dma_latency").touch()
    monkeypatch.setattr(os, "access", lambda *_: False)
    found = list(machine.timing(tmp_path / "cpu_dma_latency", lambda _which: (99, 99)))
    assert [each.level for each in found] == ["ok", "doubtful"]


@pytest.mark.parametrize(("free_gib", "level"), [(0.5, "bad"), (5, "doubtful"), (50, "ok")])
def test_disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_gib: float, level: str) -> None:
    usage = SimpleNamespace(total=100 * machine.GIB, free=free_gib * machine.GIB)
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda _path: usage)
    (found,) = machine.disks({"artifacts": tmp_path / "not" / "yet"})
    assert (found.level, bool(found.hint)) == (level, level != "ok")


def test_a_folder_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    (found,) = machine.disks({"results": tmp_path})
    assert (found.level, "may not write" in found.said) == ("bad", True)


def version_of(**others: str | None) -> object:
    def version(name: str) -> str:
        found = others.get(name, None if name == "pyserial" else metadata.version(name))
        if found is None:
            raise metadata.PackageNotFoundError(name)
        return found

    return version


def test_versions_that_fit() -> None:
    assert {each.level for each in machine.versions(version_of()) if each.subject not in {"pdudaemon", "Linux"}} == {
        "ok"
    }


@pytest.mark.parametrize("labgrid", ["25.0", None])
def test_another_labgrid_is_bad(labgrid: str | None) -> None:
    (found,) = (each for each in machine.versions(version_of(labgrid=labgrid)) if each.subject == "labgrid")
    assert (found.level, "pip install labgrid==" in found.hint) == ("bad", True)


def test_pyserial_beside_labgrids_own_is_bad() -> None:
    (found,) = (each for each in machine.versions(version_of(pyserial="3.5")) if each.subject == "pyserial")
    assert (found.level, "uninstall" in found.hint) == ("bad", True)


def test_a_program_that_lab_run_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.shutil, "which", lambda _name: None)
    (found,) = (each for each in machine.versions() if each.subject == "setpriv")
    assert (found.level, found.hint) == ("bad", "sudo apt install util-linux")


def test_results_that_are_not_there_yet_are_no_fault_and_a_damaged_file_is(tmp_path: Path) -> None:
    (none,) = results.results(str(tmp_path / "results.db"))
    assert none.level == "ok"
    (tmp_path / "damaged.db").write_bytes(b"no database" * 1000)
    (damaged,) = results.results(str(tmp_path / "damaged.db"))
    assert (damaged.level, bool(damaged.hint)) == ("bad", True)


def test_a_job_whose_process_is_gone_is_named(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with open_store(str(tmp_path / "results.db")) as store:
        who = process.identity().rsplit("/", 2)[0] + f"/{ended.pid}/1"
        jobs = JobQueue(store, who, process.has_died)
        jobs.start(jobs.enqueue(Order("am62xx_sk", "am62x-1", ("boot",), "e", "1", None)).id)
    store_found, job = results.results(str(tmp_path / "results.db"))
    assert (store_found.level, job.level, job.subject) == ("ok", "doubtful", "job 1")
    assert "lab run --resume 1" in job.hint


def test_a_power_switch_of_the_browser_that_gives_no_sign_of_life_is_named(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "results.db")) as store:
        then = utc_now() - dt.timedelta(seconds=2 * LEASE_S)
        site = JobQueue(store, process.identity(), process.has_died, program=BY_WEB, now=lambda: then)
        site.start(site.enqueue(Order("am62xx_sk", "am62x-1", ("power_cycle",), "e", "", None)).id)
        _, job = results.results(str(tmp_path / "results.db"))
        assert (job.level, job.subject) == ("doubtful", "job 1")
        assert not missing_facts(job.said, "am62x-1", "`lab web`")
        assert "--resume" not in job.hint
        JobQueue(store, process.identity(), process.has_died, program=BY_WEB).beat(1)
    assert len(list(results.results(str(tmp_path / "results.db")))) == 1


def test_a_wrong_environment_is_bad_and_the_good_ones_are_counted(tmp_path: Path) -> None:
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "wrong.yaml").write_text("targets:\n  main:\n    resuorces: {}\n")
    (tmp_path / "envs" / "empty.yaml").write_text("targets:\n  main: {resources: {}}\n")
    wrong, good = files.environments(tmp_path)
    hint = f"lab env check --env {tmp_path}/envs/wrong.yaml"
    assert (wrong.level, wrong.subject, wrong.hint) == ("bad", "wrong.yaml", hint)
    assert "1 of 2" in good.said
    (none,) = files.environments(tmp_path / "elsewhere")
    assert (none.level, "lab init" in none.hint) == ("doubtful", True)


def test_an_environment_of_the_farm_is_bad_where_a_run_would_refuse_it_and_a_template_doubtful(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "."]) == 0
    capsys.readouterr()
    shutil.copy(package_data.folder(package_data.ENVS) / "am64b.yaml", tmp_path / "envs")
    farm = config.load(tmp_path / "farm.yaml")
    named, template = files.environments(tmp_path, files.paths_of(farm, config.HERE))
    assert (named.level, named.subject, "more" in named.said) == ("bad", "am62x.yaml", True)
    assert (template.level, "am64b.yaml" in template.said) == ("doubtful", True)
    assert main(["env", "check", "--env", "am62x.yaml", "--json"]) == 2
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert main(["farm", "check", "farm.yaml"]) == 2
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "am62x.yaml" in line]
    assert problems[0] in line
    assert f"and {len(problems) - 1} more; see lab env check" in line


def test_a_board_of_another_host_lacks_nothing_here(tmp_path: Path) -> None:
    env = package_data.folder(package_data.ENVS) / "sim-am62x.yaml"
    hosts = "hosts: [{name: lab-1}, {name: lab-2}]"
    boards = f"boards: [{{name: am62xx_sk-1, env: {env}, host: lab-2}}]"
    (tmp_path / "farm.yaml").write_text(f"directory: {tmp_path}\n{hosts}\n{boards}\n")
    farm = config.load(tmp_path / "farm.yaml")
    assert list(files.farm_environments(farm, "lab-1")) == []
    (found,) = files.farm_environments(farm, "lab-2")
    assert "lab virtual up" in str(found)


def test_a_runtime_folder_that_is_open_to_others_is_bad(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(0o755)
    (found,) = machine.runtime(tmp_path / "run")
    assert (found.level, "chmod 700" in found.hint) == ("bad", True)
    assert list(machine.runtime(tmp_path / "absent")) == []


def test_every_area_is_examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "FARM_FILES", ())
    who = CheckTarget(
        str(tmp_path / "results.db"),
        services.HostFile(None, installed=False),
        tmp_path / "run",
        tmp_path,
        tmp_path / "dev",
        tmp_path / "sys",
    )
    areas = {each.area for each in examine(who, DOCTOR)}
    assert {"ports", "timing", "disks", "services", "versions", "results", "environments"} <= areas
    assert list(tmp_path.iterdir()) == [], "nothing is made"


WELL = Finding("clocks", "clock source", "ok", "tsc")
DOUBTFUL = Finding("clocks", "wall clock", "doubtful", "is not synchronised", "sudo timedatectl set-ntp true")
BAD = Finding("ports", "/dev/ttyUSB0", "bad", "you may not open it", "sudo usermod -aG dialout ada")


@pytest.mark.parametrize(("found", "code"), [([WELL], 0), ([WELL, DOUBTFUL], 0), ([WELL, BAD], 1)])
def test_the_exit_status_is_1_when_something_is_bad(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], found: list[Finding], code: int
) -> None:
    monkeypatch.setattr(command, "examine", lambda _who, _command: found)
    assert main(["doctor", "--json"]) == code
    listed = json.loads(capsys.readouterr().out)
    assert [(each["subject"], each["level"], each["hint"]) for each in listed] == [
        (each.subject, each.level, each.hint) for each in found
    ]
    assert main(["doctor"]) == code
    assert ("nothing wrong" in capsys.readouterr().out) is (found == [WELL])


def test_the_worst_comes_first_and_each_mend_is_one_line_to_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = command.lines([WELL, DOUBTFUL, BAD])
    assert [line.split()[0] for line in lines[1:4]] == ["bad", "doubtful", "ok"]
    assert isinstance(lines[1], Marked)
    assert not missing_facts(lines[5], "1 bad", "1 doubtful")
    assert lines[6:] == [
        "  /dev/ttyUSB0:",
        f"    {BAD.hint}",
        "  wall clock:",
        f"    {DOUBTFUL.hint}",
    ]
