"""A real sshd of Debian's on loopback, which is a host or a board. Root's is in a mount namespace of its own, with its own /run.

Nothing of the host is written: what the shells of a board's sshd see as `DEVICE` is a file in the test's folder.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import frozen

from lab.virtual.images import cache, debian, tools
from lab.virtual.ports import free_port

DEVICE = "/dev/full"  # every host has it; a file lies over it in the namespace
FILES = {  # package -> its file, and the name with which it is kept; Debian 13 and Ubuntu lack the libraries
    "openssh-server": ("usr/sbin/sshd", "sshd"),
    "libwrap0": (r"(usr/)?lib/.*/libwrap\.so\.0\.7\.6", "libwrap.so.0"),
    "libnsl2": (r"(usr/)?lib/.*/libnsl\.so\.2\.0\.1", "libnsl.so.2"),
    "libtirpc3": (r"(usr/)?lib/.*/libtirpc\.so\.3\.0\.0", "libtirpc.so.3"),
}
START_S = 60
_CONFIG = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/key.pub
PidFile none
UsePAM no
StrictModes no
Subsystem sftp internal-sftp
"""
# Root's sshd wants a user sshd and a folder below /run. The kernel's caches stay as they are.
_OWN_RUN = """\
mount --bind {folder}/passwd /etc/passwd
mount -t tmpfs none /run
mkdir -m 755 /run/sshd
"""
_CARD = """\
mount --bind {folder}/card {device}
mount -t tmpfs none /sys/class/block
mkdir /sys/class/block/{name}
echo {sectors} > /sys/class/block/{name}/size
mount --bind {folder}/caches /proc/sys/vm/drop_caches
"""
_RUN = "exec {sshd} -D -e -f {folder}/config\n"


@frozen
class Sshd:
    """Where it listens, the private key for it, the file that is its medium, where it has one, and its process."""

    port: int
    key: Path
    card: Path
    pid: int


def missing() -> str:
    """Why there can be none with a medium on this host; empty: there can."""
    if os.geteuid() != 0:
        return "takes root: sshd lets other users log in only as themselves, and mounts take the right"
    done = subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True)
    return "" if done.returncode == 0 else "no mount namespaces here"


@contextlib.contextmanager
def running_sshd(folder: Path, card_bytes: int = 0) -> Iterator[Sshd]:
    """An sshd that ends with the context.

    Args:
        card_bytes: 0: a host without a medium. Anybody may start that; only the same user can log in.
    """
    packages = _packages()
    port = free_port()
    for name in ("host", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    passwd = Path("/etc/passwd").read_text(encoding="utf-8")
    if "\nsshd:" not in passwd:
        passwd += "sshd:x:65534:65534::/run/sshd:/usr/sbin/nologin\n"
    (folder / "passwd").write_text(passwd, encoding="utf-8")
    (folder / "config").write_text(_CONFIG.format(port=port, folder=folder))
    (folder / "caches").touch()
    (folder / "card").write_bytes(b"\xa5" * card_bytes)
    root = os.geteuid() == 0
    script = "".join(["set -e\n", _OWN_RUN if root else "", _CARD if card_bytes else "", _RUN]).format(
        folder=folder,
        device=DEVICE,
        name=DEVICE.rpartition("/")[2],
        sectors=card_bytes // 512,
        sshd=packages / "sshd",
    )
    with (folder / "log").open("wb") as log:
        command = [*(["unshare", "--mount"] if root else []), "sh", "-c", script]
        environ = {**os.environ, "LD_LIBRARY_PATH": str(packages)}
        with subprocess.Popen(command, env=environ, stdout=log, stderr=log, stdin=subprocess.DEVNULL) as process:
            try:
                _wait(process, port, folder / "log")
                yield Sshd(port, folder / "key", folder / "card", process.pid)
            finally:
                process.terminate()


def _packages() -> Path:
    """sshd and the libraries that this host may not have, out of Debian's packages for it."""

    def fetch(folder: Path) -> Mapping[str, object]:
        host = tools.run(["dpkg", "--print-architecture"]).decode().strip()
        apt = debian.AptRoot(folder / "apt", "bookworm", host)
        apt.update()
        for package, archive in apt.download(*FILES).items():
            pattern, name = FILES[package]
            debian.extract(archive, {pattern: folder / name})
        apt.clean()
        (folder / "sshd").chmod(0o755)
        return {}

    recipe = cache.recipe_hash(files=FILES)
    return cache.obtain("debian-sshd", recipe, fetch, root=cache.default_root(), report=print)


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as line:
            if line.recv(4).startswith(b"SSH-"):
                return
        time.sleep(0.05)
    raise AssertionError(log.read_text(errors="replace"))
