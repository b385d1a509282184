"""A guest in QEMU with the kernel's own drivers: adapters, card readers, current monitors come and go as a test says.

The kernel is Ubuntu's, the root Debian's udev and libraries; this environment's Python with boardlab and all that it
depends on, compiled, is a second disk. An agent on a serial port runs the test's code in one process of the guest, so
that imports are paid once: emulated, they take seconds. The guest's 10.0.2.2 is this host's loopback.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import Any

from attrs import define, field
from packaging.requirements import Requirement

from lab import package_data
from lab.virtual.images import cache, debian, disk, tools
from lab.virtual.images.debian import AptRoot, PinnedPackage
from support.measuring_lab import ROOT

PROGRAM = "qemu-system-x86_64"
DEADLINE_S = 900.0  # of the boot and of each piece of code, by TCG beside busy programs
MIRROR = "http://archive.ubuntu.com/ubuntu/"
KERNEL = "6.8.0-31-generic"
VERSION = "6.8.0-31.31_amd64"  # noble as released: it stays on the mirror
IMAGE, MODULES, MORE = (f"linux-{kind}-{KERNEL}" for kind in ("image", "modules", "modules-extra"))
PACKAGES = (
    PinnedPackage(
        f"pool/main/l/linux-signed/{IMAGE}_{VERSION}.deb",
        "fd2ed023c84163e62c73d3b7b613a9b004bd31e335641c23d42bd249e489fbe6",
    ),
    PinnedPackage(
        f"pool/main/l/linux/{MODULES}_{VERSION}.deb",
        "3f17f2c279257eb50e40da44390bdf8272c440ca078831c348773d1314b5c2fe",
    ),
    PinnedPackage(
        f"pool/main/l/linux/{MORE}_{VERSION}.deb",
        "8880451586278da0522a178ad54e940328447d80f47393a0e46185e1dd9dd879",
    ),
)
IN_ORDER = {  # module -> its package
    **dict.fromkeys(("xhci-pci-renesas", "xhci-pci", "usb-storage"), MODULES),
    **dict.fromkeys(("usbserial", "ftdi_sio", "i2c-smbus", "i2c-stub", "ina2xx", "ina3221", "gpio-sim"), MORE),
}
# udev, the list of libraries in which pyudev looks for its own, and those that a Python of another origin wants.
ROOT_PACKAGES = (
    "udev",
    "busybox-static",
    "libc-bin",
    "libssl3",
    "libffi8",
    "zlib1g",
    "libbz2-1.0",
    "liblzma5",
    "libexpat1",
    "socat",
    "libsqlite3-0",
    "libstdc++6",
)
STUB = "chip_addr=0x40,0x41,0x44,0x45,0x46,0x4c,0x4e"
INIT = f"""#!/bin/busybox sh
b=/bin/busybox
export PATH=/usr/sbin:/usr/bin LD_LIBRARY_PATH=/lab/python/lib PYTHONPATH=/lab/project:/lab/site HOME=/tmp
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mkdir -p /dev/pts
$b mount -t devpts devpts /dev/pts
$b mount -t tmpfs run /run
$b mount -t tmpfs tmp /tmp
$b mount -t ext4 -o ro /dev/vdb /lab
for module in {" ".join(IN_ORDER)}; do
    case $module in i2c-stub) $b insmod /modules/$module.ko {STUB};; *) $b insmod /modules/$module.ko;; esac
done
$b mount -t configfs config /sys/kernel/config
$b ip link set lo up
$b ip link set eth0 up
$b ip address add 10.0.2.15/24 dev eth0
ldconfig
/lib/systemd/systemd-udevd --daemon
udevadm trigger --action=add
udevadm settle
cd /tmp
exec /lab/python/bin/python3 /lab/agent.py
"""
AGENT = """
import json, os, traceback, tty
fd = os.open("/dev/ttyS1", os.O_RDWR | os.O_NOCTTY)
tty.setraw(fd)
names, replies = {}, iter([{"answer": "ready"}])
with open(fd, "rb") as lines:
    while True:
        for reply in replies:
            data = json.dumps(reply).encode() + b"\\n"
            while data:
                data = data[os.write(fd, data):]
        names["answer"] = None
        try:
            exec(json.loads(lines.readline()), names)
            replies = iter([{"answer": names["answer"]}])
        except BaseException:
            replies = iter([{"error": traceback.format_exc()}])
"""
_NO_STDLIB = shutil.ignore_patterns(
    "site-packages", "test", "tests", "idlelib", "lib2to3", "tkinter", "turtledemo", "ensurepip", "config-*", "*.a"
)


def build(folder: Path) -> Mapping[str, object]:
    """Fill a folder of the cache with the kernel and the root."""
    with tempfile.TemporaryDirectory(prefix="boardlab-guest-") as work:
        root = Path(work, "root")
        for name in ("bin", "sbin", "lib", "lib64"):  # Debian's /usr is merged
            (root / "usr" / name).mkdir(parents=True)
            (root / name).symlink_to(f"usr/{name}")
        for name in ("proc", "sys", "dev", "run", "tmp", "lab", "modules", "etc"):
            (root / name).mkdir()
        apt = AptRoot(Path(work, "apt"), "bookworm", "amd64")
        apt.update()
        for package in apt.download_whole(*ROOT_PACKAGES).values():
            debian.unpack(package, root)
        apt.mirror = MIRROR
        packages = apt.download_known(PACKAGES)
        debian.extract(packages[IMAGE], {f"boot/vmlinuz-{KERNEL}": folder / "vmlinuz"})
        for package_name in (MODULES, MORE):
            places = {name: Path(work, f"{name}.zst") for name, its in IN_ORDER.items() if its == package_name}
            debian.extract(packages[package_name], {f".*/{name}\\.ko\\.zst": path for name, path in places.items()})
            for name, path in places.items():
                (root / "modules" / f"{name}.ko").write_bytes(tools.run(["zstd", "-dc", path]))
        (root / "usr" / "bin" / "sh").symlink_to("busybox")
        (root / "labinit").write_text(INIT)
        (root / "labinit").chmod(0o755)
        (root / "etc" / "passwd").write_text("root:x:0:0:root:/tmp:/bin/sh\n")
        groups = ("root", "tty", "dialout", "disk", "kmem", "input", "video", "audio", "cdrom", "tape", "lp", "render")
        (root / "etc" / "group").write_text("".join(f"{name}:x:{number}:\n" for number, name in enumerate(groups)))
        disk.file_system(folder / "root.ext4", root)
    return {"kernel": KERNEL}


def dependencies(name: str) -> dict[str, metadata.Distribution]:
    """A distribution of this environment and all that it depends on, by name."""
    waiting, distributions = [name], dict[str, metadata.Distribution]()
    while waiting:
        distribution = metadata.distribution(waiting.pop())
        if distributions.setdefault(distribution.name, distribution) is distribution:
            requirements = map(Requirement, distribution.requires or ())
            waiting += [one.name for one in requirements if not one.marker or one.marker.evaluate({"extra": ""})]
    return distributions


def lab_disk(path: Path) -> None:
    """Write a disk with this Python, the project and its dependencies, compiled."""
    with tempfile.TemporaryDirectory(prefix="boardlab-guest-") as work:
        prefix, tree = Path(sys.base_prefix), Path(work)
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        python = tree / "python"
        (python / "bin").mkdir(parents=True)
        shutil.copy2(prefix / "bin" / version, python / "bin" / "python3")
        shutil.copytree(prefix / "lib" / version, python / "lib" / version, ignore=_NO_STDLIB)
        for library in prefix.glob("lib/libpython3*.so*"):
            shutil.copy2(library, python / "lib")
        for distribution in dependencies("boardlab").values():
            for file in distribution.files or ():
                if not file.parts[0].startswith("..") and file.suffix != ".pyc":
                    place = tree / "site" / file
                    place.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(file.locate(), place)
        for name in ("lab", package_data.STRATEGIES, package_data.TESTS):
            shutil.copytree(ROOT / name, tree / "project" / name, ignore=shutil.ignore_patterns("__pycache__"))
        beside = {name: value for name, value in os.environ.items() if name != "PYTHONPYCACHEPREFIX"}
        folders = [tree / name for name in ("python", "site", "project")]
        subprocess.run([sys.executable, "-m", "compileall", "-q", "-j", "0", *folders], env=beside, check=True)
        (tree / "agent.py").write_text(AGENT)
        disk.file_system(path, tree)


@define
class Guest:
    """A running guest.

    Attributes:
        folder: its sockets and images.
    """

    folder: Path
    _process: subprocess.Popen[bytes]
    _qmp: Lines
    _agent: Lines
    _peers: dict[str, socket.socket] = field(factory=dict)
    _deleted: set[str] = field(factory=set)
    _chardevs: Iterator[int] = field(factory=count)

    def run(self, code: str) -> Any:
        """What `answer` is after a piece of code; names last from one piece to the next."""
        reply = self._agent.ask(code)
        assert "error" not in reply, reply["error"]
        return reply["answer"]

    def qmp(self, command: str, **arguments: object) -> None:
        """Carry out a command of QEMU's."""
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        reply = self._qmp.ask({"execute": command, "arguments": named})
        while "event" in reply:
            self._note(reply)
            reply = self._qmp.next()
        assert "error" not in reply, reply

    def plug(self, name: str, driver: str, **arguments: object) -> None:
        """Plug a USB device in."""
        self.qmp("device_add", id=name, driver=driver, bus="usb.0", **arguments)

    def plug_adapter(self, name: str, serial: str, port: str) -> socket.socket:
        """Plug a serial adapter in, an FT232B; returns the line of the board behind it."""
        chardev = f"{name}-{next(self._chardevs)}"  # a new one has none of the bytes that the old one did not take
        address = {"type": "unix", "data": {"path": str(self.folder / chardev)}}
        backend = {"type": "socket", "data": {"addr": address, "server": True, "wait": False}}
        self.qmp("chardev-add", id=chardev, backend=backend)
        self._peers[name] = connect(self.folder / chardev)
        self.plug(name, "usb-serial", chardev=chardev, serial=serial, port=port, always_plugged=True)
        return self._peers[name]

    def unplug(self, name: str) -> None:
        """Pull a device out, and wait until it is gone."""
        self.qmp("device_del", id=name)
        while name not in self._deleted:
            self._note(self._qmp.next())
        self._deleted.remove(name)
        if name in self._peers:
            self._peers.pop(name).close()

    def _note(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "DEVICE_DELETED" and "device" in event["data"]:
            self._deleted.add(event["data"]["device"])

    def say(self, name: str, data: bytes) -> None:
        """The board behind an adapter prints something."""
        self._peers[name].sendall(data)

    def heard(self, name: str, size: int) -> bytes:
        """The first `size` bytes that arrived at an adapter's board."""
        data = b""
        while len(data) < size:
            data += self._peers[name].recv(size - len(data))
        return data

    def heard_within(self, name: str, seconds: float) -> bytes:
        """The bytes that arrived at an adapter's board until nothing came for so long."""
        peer, data = self._peers[name], b""
        while select.select([peer], [], [], seconds)[0]:
            data += peer.recv(4096)
        return data


@define
class Lines:
    """Answers of JSON on a socket, one a line."""

    _socket: socket.socket
    _received: bytes = b""

    def ask(self, request: object) -> dict[str, Any]:
        """Send a line; returns the next one."""
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        return self.next()

    def next(self) -> dict[str, Any]:
        """The next line."""
        while b"\n" not in self._received:
            more = self._socket.recv(65536)
            assert more, "the guest ended"
            self._received += more
        line, self._received = self._received.split(b"\n", 1)
        reply: dict[str, Any] = json.loads(line)
        return reply


def connect(path: Path) -> socket.socket:
    """A connection to a socket of QEMU's, which may not be there yet."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(DEADLINE_S)
    for _ in range(600):
        try:
            connection.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            time.sleep(0.1)
        else:
            return connection
    raise AssertionError(f"QEMU made no {path}")


@contextmanager
def running(folder: Path, *words: str) -> Iterator[Guest]:
    """A guest; `words` go to QEMU.

    Args:
        folder: of its sockets, with a short path.
    """
    assert shutil.which(PROGRAM), "apt install qemu-system-x86"
    recipe = cache.recipe_hash(
        init=INIT, packages=[each.sha256 for each in PACKAGES], root=ROOT_PACKAGES, modules=IN_ORDER
    )
    images = cache.obtain("driver-guest", recipe, build, root=cache.default_root(), report=print)
    lab_disk(folder / "lab.ext4")
    log = folder / "console"
    command = [
        *(PROGRAM, "-accel", "tcg", "-cpu", "max", "-m", "1024", "-nodefaults", "-no-reboot", "-display", "none"),
        *("-kernel", str(images / "vmlinuz"), "-serial", f"file:{log}"),
        # A busy host keeps the timer's interrupts from an emulated processor; the kernel takes that for a broken one.
        *("-append", "root=/dev/vda rw init=/labinit console=ttyS0 quiet no_timer_check mitigations=off panic=-1"),
        *("-drive", f"if=virtio,format=raw,snapshot=on,file={images / 'root.ext4'}"),
        *("-drive", f"if=virtio,format=raw,readonly=on,file={folder / 'lab.ext4'}"),
        *(
            "-serial",
            f"unix:{folder / 'agent'},server=on,wait=off",
            "-qmp",
            f"unix:{folder / 'qmp'},server=on,wait=off",
        ),
        *("-netdev", "user,id=net", "-device", "virtio-net,netdev=net,romfile="),
        *("-device", "qemu-xhci,id=usb,p2=8,p3=8", *words),
    ]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        qmp, agent = Lines(connect(folder / "qmp")), Lines(connect(folder / "agent"))
        qmp.next()  # the greeting
        guest = Guest(folder, process, qmp, agent)
        guest.qmp("qmp_capabilities")
        try:
            assert agent.next() == {"answer": "ready"}
        except (AssertionError, TimeoutError, ConnectionError) as error:
            raise AssertionError(log.read_text(errors="replace")[-4000:]) from error
        yield guest
    finally:
        process.kill()
        process.wait()
