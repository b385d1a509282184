"""A lab host as docs/farm/one-host.md sets one up: boardlab's wheel, a user, farm.yaml, and units that systemd has enabled. Its boards are simulated."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from attrs import frozen
from uv import find_uv_bin

from lab.package_data import BENCH_PDU
from support.machine import Machine, machine

ROOT = Path(__file__).parents[2]
PYTHON = "/usr/bin/python3"  # services do not see /root, where a Python may be
LAB, USER = Path("/srv/boardlab"), "boardlab"
FARM_FILE = "/etc/boardlab/farm.yaml"
BOARDS = ("am62xx_sk-1", "am62xx_sk-2")
ALERTMANAGER, COORDINATOR, SITE, METRICS = "127.0.0.1:9093", "127.0.0.1:20408", "127.0.0.1:9880", "127.0.0.1:9870"
PDUDAEMON, BENCHS_OWN, SWITCH = "127.0.0.1:16421", "127.0.0.1:16431", "127.0.0.1:16432"
DATABASE = "sqlite:////var/lib/boardlab/results.db"
PORTS = ("main0", "mcu")
CYCLES = 20  # so that a power cut after the first one comes before the last
# A bench of simulated boards stands for the boards on the desk; it is no unit of boardlab's. pdudaemon is: the bench's own has another port.
BENCH = f"""\
[Unit]
Description=the boards on the desk
Before=boardlab-console.service boardlab-pdudaemon.service
[Service]
User={USER}
WorkingDirectory={LAB}
Environment=BOARDLAB_RUNTIME=/run/desk BOARDLAB_PDUDAEMON={LAB}/.cache/pdudaemon/bin/pdudaemon
RuntimeDirectory=desk
Restart=on-failure
ExecStart={LAB}/.venv/bin/lab virtual up sim --foreground --type am62xx_sk --count {len(BOARDS)} --time-scale 0.05 \\
    --dir {LAB}/desk --pdu-port {BENCHS_OWN.partition(":")[2]} --switch-port {SWITCH.partition(":")[2]}
[Install]
WantedBy=multi-user.target
"""
# What docs/farm/one-host.md has a person do; this host's cache of packages is used.
INSTALL = f"""\
uv=$1 wheel=$2
unset UV_OFFLINE  # the cache may have been filled by lock files alone, without the index that this asks
cd /tmp
$uv export -q --frozen --no-default-groups --no-emit-project -o locked.txt
$uv venv -q --python {PYTHON} {LAB}/.venv
$uv pip install -q --python {LAB}/.venv -r locked.txt $wheel
$uv venv -q --python {PYTHON} {LAB}/.cache/pdudaemon
$uv pip install -q --no-config --no-deps --python {LAB}/.cache/pdudaemon -r pdudaemon/requirements.txt
$uv venv -q --python {PYTHON} {LAB}/.cache/buildbot
$uv pip install -q --no-config --no-deps --python {LAB}/.cache/buildbot -r buildbot/requirements.txt
{LAB}/.venv/bin/lab init {LAB} --sim
chown -R {USER}: {LAB}
chmod 755 {LAB}
"""
# Of Debian's package, beyond loopback by default.
ALERTS = f"""\
[Service]
ExecStart=
ExecStart=/usr/bin/prometheus-alertmanager --config.file=/etc/prometheus/alertmanager.yml --storage.path=/var/lib/prometheus/alertmanager \
    --web.listen-address={ALERTMANAGER} --cluster.listen-address=
"""
SERVICES = tuple(
    f"boardlab-{name}.service"
    for name in ("coordinator", "console", "pdudaemon", "exporter", "web", "janitor", "export", "rails")
)


@frozen
class LabHost:
    """The machine, and its lab."""

    machine: Machine

    def lab(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run `lab` as the user of its services, with their environment."""
        env = (
            f"LAB_DB={DATABASE}",
            "BOARDLAB_RUNTIME=/run/boardlab",
            "XDG_DATA_HOME=/var/lib/boardlab",
            f"HOME={LAB}",
        )
        return self.machine.run(
            "env", "--chdir", str(LAB), *env, f"{LAB}/.venv/bin/lab", *words, check=check, user=USER
        )

    def runs(self) -> list[tuple[str, str]]:
        """Kind and status of each run, the newest first."""
        return [(run["kind"], run["status"]) for run in self.listed()]

    def listed(self) -> list[dict[str, Any]]:
        """Its runs as `lab results list` has them, the newest first."""
        return list(json.loads(self.lab("results", "list", "--json").stdout))

    def unit(self, name: str, what: str) -> str:
        """A property of a unit."""
        return self.machine.run("systemctl", "show", "--value", "--property", what, name).stdout.strip()


@contextmanager
def lab_host(folder: Path) -> Iterator[LabHost]:
    """It is on, and all of its units are enabled."""
    with machine(folder) as found:
        _install(found, folder)
        found.boot()
        _configure(found)
        yield LabHost(found)


def _install(found: Machine, folder: Path) -> None:
    """Set a host up as docs/farm/one-host.md says."""
    for wanted in ("multi-user.target.wants", "timers.target.wants"):  # of this host, and not of a lab's
        for unit in (found.root / "etc/systemd/system" / wanted).iterdir():
            unit.unlink()
    subprocess.run(
        [find_uv_bin(), "build", "--wheel", "--quiet", "--out-dir", folder], cwd=ROOT, check=True, timeout=300
    )
    (wheel,) = folder.glob("*.whl")
    shutil.copy(wheel, found.root / "tmp")
    for name in ("pyproject.toml", "uv.lock"):
        shutil.copy(ROOT / name, found.root / "tmp" / name)
    for name in ("pdudaemon", "buildbot"):
        shutil.copytree(ROOT / "farm" / name, found.root / "tmp" / name)
    found.before("adduser", "--quiet", "--system", "--group", "--home", str(LAB), USER)
    found.before("sh", "-ec", INSTALL, "sh", find_uv_bin(), wheel.name)
    units = found.root / "etc/systemd/system"
    (units / "desk.service").write_text(BENCH, encoding="utf-8")
    (units / "prometheus-alertmanager.service").unlink(missing_ok=True)  # `./run` masks it
    (units / "prometheus-alertmanager.service.d").mkdir()
    (units / "prometheus-alertmanager.service.d" / "loopback.conf").write_text(ALERTS, encoding="utf-8")
    services = ("desk.service", "prometheus-alertmanager.service")
    found.before("systemctl", "enable", "--quiet", *services)


def _configure(found: Machine) -> None:
    """Write the files of /etc from what the boards on the desk are, and enable what `lab farm units` makes of them."""
    desk = found.root / LAB.relative_to("/") / "desk"
    found.wait(lambda: all((desk / board / "env.yaml").exists() for board in BOARDS), "the bench")
    for outlet, board in enumerate(BOARDS, start=1):
        env = (desk / board / "env.yaml").read_text(encoding="utf-8")
        for benchs_own, ours in (
            (BENCHS_OWN, PDUDAEMON),
            (f"pdu: {BENCH_PDU}/{board}", f"pdu: {BENCH_PDU}"),
            ("index: 1", f"index: {outlet}"),
        ):
            assert env.count(benchs_own) == 1, benchs_own
            env = env.replace(benchs_own, ours)
        write(found, LAB / "envs" / f"{board}.yaml", env)
    address, _, port = PDUDAEMON.partition(":")
    daemon = {"hostname": address, "port": int(port), "logging_level": "INFO", "listener": "http"}
    outlets = {"driver": "tasmota", "ip": SWITCH, "port_count": len(BOARDS), "retries": 1, "retrydelay": 0}
    write(found, Path("/etc/pdudaemon/pdudaemon.conf"), json.dumps({"daemon": daemon, "pdus": {BENCH_PDU: outlets}}))
    ports = {
        name: {"cls": "RawSerialPort", "port": f"{LAB}/desk/{BOARDS[1]}/{name}", "speed": 115200} for name in PORTS
    }
    write(found, Path("/etc/boardlab/exports.yaml"), yaml.safe_dump({BOARDS[1]: ports}))
    write(found, Path(FARM_FILE), yaml.safe_dump(farm()))
    found.run(f"{LAB}/.venv/bin/lab", "farm", "units", FARM_FILE, "--output", "/etc/systemd/system")
    found.run("systemctl", "daemon-reload")
    found.run("systemctl", "enable", "--quiet", "--now", *SERVICES)


def farm() -> dict[str, object]:
    """Its farm.yaml."""
    return {
        "user": USER,
        "directory": str(LAB),
        "program": f"{LAB}/.venv/bin/lab",
        "database": DATABASE,
        "alertmanager": ALERTMANAGER,
        "coordinator": COORDINATOR,
        "exports": "/etc/boardlab/exports.yaml",
        "exporter": {"listen": METRICS},
        "web": {"listen": SITE},
        "pdudaemon": {
            "program": f"{LAB}/.cache/pdudaemon/bin/pdudaemon",
            "config": "/etc/pdudaemon/pdudaemon.conf",
            "address": PDUDAEMON,
        },
        "schedules": [
            {"name": f"nightly-{number}", "env": f"{board}.yaml", "board": board, "cycles": CYCLES, "medium": "sd"}
            for number, board in enumerate(BOARDS, start=1)
        ],
    }


def write(found: Machine, path: Path, text: str) -> None:
    """A file of the machine."""
    place = found.root / path.relative_to("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")
