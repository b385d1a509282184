"""labgrid's own coordinator and exporter with ser2net, in network namespaces: console, power and straps of a place."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import netlab
from support.coordinator import ALICE, client, running, running_coordinator
from support.measuring_lab import Lab, assert_true, running_lab
from support.prometheus_server import until
from support.virtual_bench import wait_for_listener

from lab import boards
from lab.metrics import Flag
from lab.metrics.catalogue import BOOT_TIME
from lab.results import open_store
from lab.virtual.truth_log import read_truth, true_boots

pytestmark = pytest.mark.soak

BOARD, TYPE = "am62xx_sk-1", "am62xx_sk"
DEADLINE_S = 600
MEDIA = ("sd", "emmc")
EXPORTED = {"RawSerialPort", "PDUDaemonPort", "HttpDigitalOutput"}


@pytest.fixture(scope="module")
def hosts() -> Iterator[netlab.Hosts]:
    assert not netlab.problem(), netlab.problem()
    assert shutil.which("ser2net"), "apt install ser2net"
    folder = Path(tempfile.mkdtemp(prefix="hosts-"))
    with netlab.hosts(folder) as hosts:
        yield hosts
    shutil.rmtree(folder)


def place_of(env: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Take the resources that an exporter has out of an environment, whose place has them now."""
    main = env["targets"]["main"]
    exported, own = {}, []
    for entry in main["resources"]:
        ((kind, words),) = entry.items()
        if kind == "RawSerialPort":
            words["port"] = str(Path(words["port"]).resolve())  # labgrid's exporter takes paths below /dev alone
        if kind in EXPORTED:
            exported[words.get("name", kind)] = {"cls": kind, **{key: words[key] for key in words if key != "name"}}
        elif kind != "RailSensors":
            own.append(entry)
    main["resources"] = [{"RemotePlace": {"name": BOARD}}, *own]
    main["drivers"] = [entry for entry in main["drivers"] if "RailsDriver" not in entry]
    return exported


@pytest.fixture(scope="module")
def lab(hosts: netlab.Hosts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A board on the host, exported there by labgrid's own exporter; the environment of its place is `place.yaml`."""
    folder = tmp_path_factory.mktemp("stock")
    with ExitStack() as stack:
        with netlab.inside(hosts.host):
            lab = stack.enter_context(running_lab(folder, "sim", "--type", TYPE, "--time-scale", "0.5"))
            coordinator = stack.enter_context(running_coordinator(folder))
            env = yaml.safe_load((lab.bench.folder / BOARD / "env.yaml").read_text())
            (folder / "exporter.yaml").write_text(yaml.safe_dump({BOARD: place_of(env)}))
            words = ("-c", coordinator, "-n", "labhost", "--hostname", netlab.HOST, str(folder / "exporter.yaml"))
            stack.enter_context(running("labgrid-exporter", *words, folder=folder))
            client(coordinator, "-p", BOARD, "create")
            client(coordinator, "-p", BOARD, "add-match", f"labhost/{BOARD}/*")
            client(coordinator, "-p", BOARD, "acquire")
            log = folder / "labgrid-exporter.log"
            until(lambda: log.read_text().count("started ser2net") == 2, "ser2net serves both ports")
            ports = [
                address.rpartition(":")[2]
                for address in (coordinator, lab.bench.state.pdudaemon, lab.bench.state.http)
            ]
        with netlab.inside(hosts.runner):
            stack.enter_context(forwarded(hosts, ports))
        env["options"] = {"coordinator_address": coordinator}
        (folder / "place.yaml").write_text(yaml.safe_dump(env))
        lab.environ |= ALICE
        yield lab


@contextmanager
def forwarded(hosts: netlab.Hosts, ports: Sequence[str]) -> Iterator[None]:
    """Hand ports of the runner's loopback on to those of the host, on which coordinator, pdudaemon and panel listen."""
    words = [word for port in ports for word in ("-L", f"127.0.0.1:{port}:127.0.0.1:{port}")]
    with subprocess.Popen(["ssh", "-F", hosts.ssh_config, "-N", *words, netlab.HOST]) as process:
        try:
            for port in ports:
                wait_for_listener(f"127.0.0.1:{port}")
            yield
        finally:
            process.terminate()


def test_a_board_behind_ser2net_boots_from_each_medium_and_its_times_hold_the_truth(
    hosts: netlab.Hosts, lab: Lab
) -> None:
    hosts.tell("5 0")
    with netlab.inside(hosts.runner):
        process = lab.pytest(
            *("--lg-env", str(lab.folder / "place.yaml"), "--lab-cycles", "2", "--lab-medium", ",".join(MEDIA))
        )
        assert process.wait(DEADLINE_S) == pytest.ExitCode.OK, lab.log
    identity = boards.load(TYPE).identity
    assert identity is not None
    truth = true_boots(read_truth(lab.bench.folder / BOARD / "truth.log"), identity.hostname)
    with open_store(lab.environ["LAB_DB"]) as store:
        attempts = store.attempts(store.runs()[0].id)
    samples = [
        sample for attempt in attempts if attempt.ok for sample in attempt.samples if sample.metric == BOOT_TIME.name
    ]
    assert [sample.params["medium"] for sample in samples] == [medium for medium in MEDIA for _ in range(2)]
    assert all(Flag.REMOTE_STAMP in sample.flags for sample in samples), "ser2net has no stamps of its own"
    boots = truth[-len(samples) :]
    assert_true([(sample.value, sample.uncertainty, boot.boot_s) for sample, boot in zip(samples, boots, strict=True)])
