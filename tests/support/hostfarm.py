"""A farm of several hosts: a coordinator, hosts with simulated boards behind our exporter, and one whose Buildbot runs `lab run` on their places.

What keeps programs running on each of them is what `lab farm up` starts there.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc
import yaml
from attrs import define, field
from labgrid.remote.generated import labgrid_coordinator_pb2 as messages
from labgrid.remote.generated.labgrid_coordinator_pb2_grpc import CoordinatorStub

from lab.farm import buildbot
from lab.farm.local import LocalFarm, Program, Supervisor
from support.buildbot_farm import DEADLINE_S, LAB, BuildbotFarm, Listener
from support.hostnet import Host, await_ssh, left, network, ssh_config
from support.netlab import inside

COORDINATOR, RUNNER = "coordinator", "runner"
TYPE = "am62xx_sk"
PDU = "127.0.0.1:16421"
STRAPS = 8000  # the relay card's port
RELAY = Path(__file__).with_name("straprelay.py")
POLL_S = 0.2
DROPPED = {"RailSensors", "RailsDriver", "SideConsoleDriver", "WakePinsDriver"}


def place(host: str, number: int) -> str:
    """Of a board, and the board's name."""
    return f"{host}-{number}"


@define
class HostFarm:
    """All of it.

    Attributes:
        boards: how many each host has. parallel: runs at once. relays: host -> the process of its relay card.
    """

    folder: Path
    hosts: dict[str, Host]
    boards: int
    time_scale: float
    attempts: int
    parallel: int
    relays: dict[str, subprocess.Popen[bytes]] = field(factory=dict)

    @property
    def boarded(self) -> list[Host]:
        """The hosts with boards."""
        return [host for name, host in self.hosts.items() if name not in {COORDINATOR, RUNNER}]

    @property
    def coordinator(self) -> str:
        """Its address."""
        return f"{self.hosts[COORDINATOR].address}:20408"

    @property
    def names(self) -> list[str]:
        """Of the boards, and of their places; neighbours hang on different hosts."""
        return [place(host.name, number) for number in range(1, self.boards + 1) for host in self.boarded]

    def desk(self, name: str) -> LocalFarm:
        """What `lab farm up` brings up on a host."""
        return LocalFarm(self.hosts[name].folder / "farm.yaml")

    def supervised(self) -> Supervisor:
        """Of the coordinator's host."""
        return Supervisor(self.hosts[COORDINATOR].folder / "run")

    def boot(self, name: str) -> None:
        """Have a host start what it runs, after its power came."""
        host = self.hosts[name]
        if name == COORDINATOR:
            program = Program(
                "coordinator", (str(LAB.with_name("labgrid-coordinator")), "-l", self.coordinator), self.coordinator
            )
            with inside(host.namespace):
                self.supervised().up([program], {"PATH": str(LAB.parent)})
            return
        if name != RUNNER:
            host.serve_ssh()
            relay = [sys.executable, "-P", RELAY, host.address, str(STRAPS), self.desk(name).bench / "bench.json"]
            self.relays[name] = subprocess.Popen(host.command(*relay), cwd=host.folder)
        host.run(LAB, "farm", "up", self.desk(name).file)

    def switch_off(self, name: str) -> None:
        """As `Host.switch_off`."""
        self.hosts[name].switch_off()
        if name in self.relays:
            self.relays.pop(name).wait(DEADLINE_S)

    def down(self, name: str) -> None:
        """Take a host's farm down as a person does."""
        host = self.hosts[name]
        if name == COORDINATOR:
            self.supervised().down()
            return
        host.run(LAB, "farm", "down", self.desk(name).file)
        if name in self.relays:
            relay = self.relays.pop(name)
            relay.kill()
            relay.wait(DEADLINE_S)
            host.end()

    def write(self) -> None:
        """Each host's farm.yaml, and what it exports."""
        for host in self.boarded:
            exported = {place(host.name, number): self._exported(host, number) for number in range(1, self.boards + 1)}
            (host.folder / "exporter.yaml").write_text(yaml.safe_dump(exported))
            virtual = {"types": [TYPE], "count": self.boards, "time_scale": self.time_scale}
            document = {
                "exports": str(host.folder / "exporter.yaml"),
                "pdudaemon": {"address": PDU},
                "virtual": virtual,
            }
            self._farm(host, document)
        program = {"program": str(buildbot.find()), "attempts": self.attempts, "parallel": self.parallel}
        entries = [{"name": name, "env": f"envs/{name}.yaml"} for name in self.names]
        self._farm(self.hosts[RUNNER], {"buildbot": program, "boards": entries})

    def write_envs(self) -> None:
        """The boards' environments as those of places, once their hosts have made them."""
        folder = self.hosts[RUNNER].folder / "envs"
        folder.mkdir()
        for host in self.boarded:
            for number in range(1, self.boards + 1):
                made = self.desk(host.name).bench / f"{TYPE}-{number}" / "env.yaml"
                name = place(host.name, number)
                (folder / f"{name}.yaml").write_text(
                    yaml.safe_dump(self._env(yaml.safe_load(made.read_text()), host, name))
                )

    def make_places(self) -> None:
        """And wait until the coordinator has them on its disk, which it writes every 15 s."""
        with inside(self.hosts[RUNNER].namespace), grpc.insecure_channel(self.coordinator) as channel:
            stub = CoordinatorStub(channel)
            for host in self.boarded:
                for number in range(1, self.boards + 1):
                    name = place(host.name, number)
                    stub.AddPlace(messages.AddPlaceRequest(name=name), timeout=DEADLINE_S)
                    match = messages.AddPlaceMatchRequest(placename=name, pattern=f"{host.name}/{name}/*")
                    stub.AddPlaceMatch(match, timeout=DEADLINE_S)
        kept = self.hosts[COORDINATOR].folder / "run" / "places.yaml"
        deadline = time.monotonic() + DEADLINE_S
        while not kept.exists() or kept.read_text().count("exporter:") < len(self.names):
            assert time.monotonic() < deadline, "the coordinator does not keep its places"
            time.sleep(POLL_S)

    def _farm(self, host: Host, more: dict[str, object]) -> None:
        document = {
            "directory": str(host.folder),
            "program": str(LAB),
            "database": f"sqlite:///{host.folder / 'results.db'}",
            "coordinator": self.coordinator,
            **more,
        }
        (host.folder / "farm.yaml").write_text(json.dumps(document))  # which is YAML, too

    def _exported(self, host: Host, number: int) -> dict[str, object]:
        device = self.desk(host.name).bench / f"{TYPE}-{number}" / "main0"
        return {
            "PDUDaemonPort": {"host": PDU, "pdu": "bench", "index": number},
            "main0": {"cls": "RawSerialPort", "port": str(device), "speed": 115200},
        }

    def _env(self, made: dict[str, object], host: Host, name: str) -> dict[str, object]:
        main = made["targets"]["main"]  # type: ignore[index]
        kept = [
            each
            for each in main["resources"]
            if "HttpDigitalOutput" in each and each["HttpDigitalOutput"]["name"] != "CAN"
        ]
        for each in kept:
            at = each["HttpDigitalOutput"]["url"].partition("/boards/")
            each["HttpDigitalOutput"]["url"] = f"http://{host.address}:{STRAPS}/boards/{at[2]}"
        main["resources"] = [{"RemotePlace": {"name": name}}, *kept]
        drivers = [each for each in main["drivers"] if not DROPPED & each.keys()]
        drivers = [each for each in drivers if each.get("HttpDigitalOutputDriver", {}).get("name") != "CAN"]
        for each in drivers:
            each.get("BoardStrategy", {}).update(board=name)
        main["drivers"] = drivers
        return {
            "targets": {"main": main},
            "imports": made["imports"],
            "options": {"coordinator_address": self.coordinator},
        }


@contextmanager
def running(
    boards: int, time_scale: float, attempts: int, hosts: Sequence[str] = ("hosta", "hostb"), parallel: int = 16
) -> Iterator[tuple[HostFarm, BuildbotFarm]]:
    """Bring all up, and down again; meanwhile the test is in the runner's network. Nothing of it may be left running.

    Args:
        boards: of each host. parallel: runs at once.
    """
    folder = Path(tempfile.mkdtemp(prefix="farm-"))  # paths of sockets are short
    with ExitStack() as stack:
        found = stack.enter_context(network(folder, [COORDINATOR, *hosts, RUNNER], ahead=hosts))
        farm = HostFarm(folder, found, boards, time_scale, attempts, parallel)
        farm.write()
        patch = stack.enter_context(_environment(folder))
        assert patch
        for name in [COORDINATOR, *hosts]:
            farm.boot(name)
        farm.write_envs()
        farm.make_places()
        for host in farm.boarded:
            await_ssh(host, found[RUNNER], ssh_config(folder))
        farm.boot(RUNNER)
        with inside(found[RUNNER].namespace):
            yield farm, BuildbotFarm(farm.desk(RUNNER), Listener(""))
            for name in [RUNNER, *hosts, COORDINATOR]:
                farm.down(name)
            deadline = time.monotonic() + DEADLINE_S  # ssh's connections stay for a minute without use
            while rest := left(list(found.values())):
                assert time.monotonic() < deadline, f"left running: {rest}"
                time.sleep(POLL_S)
    shutil.rmtree(folder)


@contextmanager
def _environment(folder: Path) -> Iterator[bool]:
    import pytest  # noqa: PLC0415

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BOARDLAB_SSH_CONFIG", str(ssh_config(folder)))
        yield True
