"""The card of a multiplexer on another host is looked at, written and read back there, through ssh."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from attrs import define
from labgrid import Target
from support.facts import missing_facts
from support.playedssh import played_ssh

from lab.control.provisioning import hub_of_write
from lab.drivers import MultiplexedCardDriver, VirtualSDMux, VirtualSDMuxDriver
from lab.errors import ConfigurationError, LabTransientError
from lab.host import locks
from lab.host.ssh import SshLink
from lab.provision.errors import MediaMissingError, MediaVerifyFailedError, TargetRefusedError
from lab.provision.release import Content, Image
from lab.provision.snagboot import hub_of_disk, turn_at
from lab.provision.writer import WriteProgress
from lab.provision.writer import WriteTarget as WayTarget
from lab.provision.writers.blockwriter import ORDER, WRITE
from lab.provision.writers.sd_mux import CardHost

DEADLINE_S = 60.0
READER = "pci-0000:00:14.0-usb-0:3.2:1.0-scsi-0:0:0:0"
SIZE = 8 << 20
DATA = os.urandom(5 << 20)
# `lab` of the other host, where a file is the card, and a file beside it says what udev knows of it.
LAB = """#!{python}
import os, sys
sys.path.insert(0, {root!r})
from lab.provision.writers import sd_mux as cardhost
from lab.provision.writers.sd_mux import Disk
if os.path.isfile(sys.argv[3]):
    cardhost.disk_here = lambda path: Disk(path, os.stat(path).st_size, open(path + ".udev").read())
assert os.environ["AT"] == "lab-2"
from lab.cli import main
sys.exit(main())
"""


class Strategy:
    """The strategy as far as a card needs it."""

    def transition(self, _status: str) -> None: ...


@define
class OtherHost:
    """A host with a multiplexer: its card, its command `lab`, and the ssh that leads to it."""

    card: Path
    program: Path
    ssh: Path

    def driver(self, **more: object) -> MultiplexedCardDriver:
        """As of a labgrid place: the multiplexer's resource is on lab-2."""
        target = Target("main")
        mux = VirtualSDMux(target, "mux", url="http://127.0.0.1:1/", image="")
        del mux.image  # as labgrid's NetworkUSBSDMuxDevice has it
        mux.host, mux.path = "lab-2", str(self.card)
        VirtualSDMuxDriver(target, "muxdriver")
        return MultiplexedCardDriver(target, "card", **{"program": str(self.program), **more})

    @property
    def there(self) -> CardHost:
        return CardHost(SshLink.to("lab-2", self.card.parent / "run"), str(self.program))


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OtherHost:
    places = ["dut"]

    def ask(_driver: object, mode: str | None) -> str:
        places.append(mode or places[-1])
        return places[-1]

    monkeypatch.setattr(VirtualSDMuxDriver, "_ask", ask)
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path / "run"))
    (tmp_path / "run").mkdir(mode=0o700)
    (tmp_path / "sdz").write_bytes(b"\xa5" * SIZE)
    (tmp_path / "sdz.udev").write_text("pci-0:usb-1 Reader")
    (tmp_path / "lab").write_text(LAB.format(python=sys.executable, root=str(Path(__file__).parents[3])))
    (tmp_path / "lab").chmod(0o755)
    return OtherHost(tmp_path / "sdz", tmp_path / "lab", played_ssh(tmp_path / "bin", monkeypatch))


def content(folder: Path) -> Content:
    (folder / "a.wic").write_bytes(DATA)
    return Content(Image(source=str(folder / "a.wic"), sha256=hashlib.sha256(DATA).hexdigest(), size=len(DATA)))


KIND = WayTarget("b1", "any", "sd")


def test_a_card_of_another_host_is_written_there_and_read_back(other: OtherHost, tmp_path: Path) -> None:
    writer = other.driver(id_path="pci-0:usb-1").writers(Strategy())["sd"]
    plan = writer.plan(content(tmp_path), KIND)
    assert (plan.target.device, plan.target.size_bytes) == (f"lab-2:{other.card}", SIZE)
    assert plan.target.identity == "pci-0:usb-1 Reader"
    told: list[WriteProgress] = []
    writer.write(plan, told.append)
    assert other.card.read_bytes() == DATA + b"\xa5" * (SIZE - len(DATA))
    assert told[-1].done == len(DATA)
    assert writer.verify(plan).bytes == len(DATA)
    other.card.write_bytes(b"x" + other.card.read_bytes()[1:])
    with pytest.raises(MediaVerifyFailedError):
        writer.verify(plan)


def test_another_disk_than_the_environments_is_refused_before_the_first_byte(other: OtherHost, tmp_path: Path) -> None:
    with pytest.raises(TargetRefusedError, match=r"lab-2.*pci-0:usb-2"):
        other.driver(id_path="pci-0:usb-2").writers(Strategy())["sd"].plan(content(tmp_path), KIND)
    with pytest.raises(TargetRefusedError, match=r"another card"):
        other.driver(largest_gib=0.001).writers(Strategy())["sd"].plan(content(tmp_path), KIND)
    assert other.card.read_bytes() == b"\xa5" * SIZE


def test_a_disk_that_is_another_one_when_it_is_opened_is_not_written(other: OtherHost, tmp_path: Path) -> None:
    there = other.there
    disk = there.disk(str(other.card))
    other.card.with_name("sdz.udev").write_text("pci-0:usb-1 Somebody")
    driver = other.driver()
    driver._find_disk = lambda _resource: disk
    writer = driver.writers(Strategy())["sd"]
    plan = writer.plan(content(tmp_path), KIND)
    with pytest.raises(TargetRefusedError, match=r"another disk"):
        writer.write(plan, lambda _progress: None)
    assert other.card.read_bytes() == b"\xa5" * SIZE


def test_what_is_no_disk_there_is_refused_by_that_host(other: OtherHost) -> None:
    with pytest.raises(TargetRefusedError, match=r"lab-2: /dev/null.*no"):
        other.there.disk("/dev/null")
    with pytest.raises(MediaMissingError, match=r"/dev/no-such-card.*van"):
        other.there.disk("/dev/no-such-card")


def test_a_host_without_boardlab_or_out_of_reach_is_said(other: OtherHost, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no such program.*boardlab"):
        other.driver(program="no-such-lab").writers(Strategy())["sd"].plan(content(tmp_path), KIND)
    (other.ssh / "away").touch()
    with pytest.raises(LabTransientError, match=r"ssh to lab-2"):
        other.driver().writers(Strategy())["sd"].plan(content(tmp_path), KIND)


def test_a_connection_that_is_cut_ends_the_writer_there(other: OtherHost) -> None:
    disk = other.there.disk(str(other.card))
    words = [
        str(other.program),
        "farm",
        "card",
        disk.path,
        "--identity",
        disk.identity,
        "--bytes",
        str(SIZE),
        "--write",
    ]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "AT": "lab-2"}
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"open\n"
        writer.stdin.write(ORDER.pack(WRITE, 0, 4096) + b"half")
        writer.stdin.close()
        assert writer.wait(DEADLINE_S) == 1
    assert other.card.read_bytes() == b"\xa5" * SIZE


def test_two_hosts_do_not_write_through_one_hub_at_once(other: OtherHost, tmp_path: Path) -> None:
    """The hub is the other host's: programs of two hosts meet there and nowhere else."""
    other.card.with_name("sdz.udev").write_text(f"{READER} Reader")
    writer = other.driver().writers(Strategy())["sd"]
    plan = writer.plan(content(tmp_path), KIND)
    assert (plan.target.host, hub_of_write(plan, None, str)) == ("lab-2", ""), "its name means another hub here"
    told: list[WriteProgress] = []
    began = threading.Event()

    def report(progress: WriteProgress) -> None:
        told.append(progress)
        began.set()

    writing = threading.Thread(target=writer.write, args=(plan, report))
    with locks.turn(turn_at(hub_of_disk(READER)), "/dev/sdy by ann from 10.0.0.9", print):
        writing.start()
        assert began.wait(DEADLINE_S)
        assert not missing_facts(told[0].step, "waits", "/dev/sdy by ann", "10.0.0.9", "pci-0000:00:14.0", "-usb-0:3")
        assert other.card.read_bytes() == b"\xa5" * SIZE
    writing.join(DEADLINE_S)
    assert other.card.read_bytes()[: len(DATA)] == DATA
    assert writer.verify(plan).bytes == len(DATA)


def test_who_waits_for_a_hub_and_is_cut_off_waits_no_more(other: OtherHost) -> None:
    other.card.with_name("sdz.udev").write_text(READER)
    disk = other.there.disk(str(other.card))
    words = [str(other.program), "farm", "card", disk.path, "--identity", READER, "--bytes", str(SIZE), "--write"]
    with (
        locks.turn(turn_at(hub_of_disk(READER)), "/dev/sdy by ann from 10.0.0.9", print),
        subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "AT": "lab-2"}
        ) as writer,
    ):
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stdout.readline().startswith(b"waits /dev/sdy by ann")
        writer.stdin.close()
        assert writer.wait(DEADLINE_S) == 0
        assert b"has gone" in writer.stdout.read()
