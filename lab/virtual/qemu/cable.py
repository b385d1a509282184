"""Cable between a QEMU board and its tester: a namespaced tap.

No network of the host has a part in it, and no privileges are needed where user namespaces are allowed.

`python -m lab.virtual.qemu.cable FD` is the namespace's first process: it makes the tap (kernel: networking/tuntap),
sends its descriptor through the socket FD, and ends when the socket is closed. A program in its namespace is the
tester.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import fcntl
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

from lab.errors import LabStableError, LabTransientError
from lab.virtual.board import BoardFolder
from lab.virtual.process import Child

TESTER = "192.168.0.1"  # the board is 192.168.0.2 (data/bench-tools); both are what `benchmarks` in an env defaults to
TUN = Path("/dev/net/tun")
_NAMESPACE = ["unshare", "--map-root-user", "--net"]
_NETMASK = "255.255.255.0"
_START_S = 10.0
# linux/if_tun.h, linux/sockios.h, linux/if.h
_TUNSETIFF = 0x400454CA
_IFF_TAP, _IFF_NO_PI, _IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _SIOCSIFADDR, _SIOCSIFNETMASK = 0x8913, 0x8914, 0x8916, 0x891C
_IFF_UP = 0x1
_QUEUED = 1000  # packets; a tap's queue has 500 (drivers/net/tun.c, TUN_READQ_SIZE)
_PACKET_BYTES = 1 << 17  # more than any packet, which a shorter read would cut
_DEVICE = b"eth0"


def problem() -> str:
    """Reason why this host cannot have a cable, with the remedy.

    Empty: it can.
    """
    if not os.access(TUN, os.R_OK | os.W_OK):
        return f"{TUN} is missing or not yours to open; load the module tun, and let your user read and write it"
    done = subprocess.run([*_NAMESPACE, "true"], capture_output=True, text=True, check=False)
    if done.returncode:
        return f"no network namespace ({done.stderr.strip()}); allow user namespaces (sysctl user.max_user_namespaces), or be root"
    return ""


class Cable:
    """The bench's end, during its life; `fd` is the tap.

    It serves one QEMU after the other.
    """

    def __init__(self, child: Child, held: socket.socket, fd: int) -> None:
        self._child, self._held = child, held
        self.fd = fd

    @classmethod
    async def plug(cls, folder: BoardFolder) -> Cable:
        """Make the namespace and its tap; note its number in the folder.

        Raises:
            LabStableError: the host does not let us.
        """
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            command = [*_NAMESPACE, sys.executable, "-P", "-m", __name__, str(theirs.fileno())]
            child = Child(command, folder.qemu_log, pass_fds=(theirs.fileno(),))
        log = folder.qemu_log
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(ours, readable.set)
        try:
            async with asyncio.timeout(_START_S):
                await readable.wait()
            _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
        except TimeoutError:
            descriptors = []
        finally:
            loop.remove_reader(ours)
        if not descriptors:
            ours.close()
            await child.kill()
            raise LabStableError(f"no cable for the board; {problem() or f'{log} says why'}", failure="virtual_board")
        folder.tester.write_text(f"{child.pid}\n")
        return cls(child, ours, descriptors[0])

    def drain(self) -> None:
        """Drop the packets to a board that was off."""
        os.set_blocking(self.fd, False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(_QUEUED):  # not for ever: a tester may go on sending
                os.read(self.fd, _PACKET_BYTES)


def enter(folder: BoardFolder, command: str) -> list[str]:
    """Command line that runs a shell command as the board's tester.

    Raises:
        LabTransientError: it has none.
    """
    try:
        pid = int(folder.tester.read_text())
    except (OSError, ValueError) as error:
        raise LabTransientError(
            f"{folder.name} has no cable to a tester yet; it gets it with its power, on a bench of `lab virtual up --tools`"
        ) from error
    return ["nsenter", "--target", str(pid), "--user", "--net", "--preserve-credentials", "sh", "-c", command]


def _tap() -> int:
    fd = os.open(TUN, os.O_RDWR | os.O_CLOEXEC)
    fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH14x", _DEVICE, _IFF_TAP | _IFF_NO_PI | _IFF_VNET_HDR))
    return fd


def _address(request: int, control: socket.socket, address: str) -> None:
    wanted = struct.pack("16sHH4s8x", _DEVICE, socket.AF_INET, 0, socket.inet_aton(address))
    fcntl.ioctl(control, request, wanted)


def _up(control: socket.socket, device: bytes) -> None:
    flags = array.array("B", struct.pack("16sH14x", device, 0))
    fcntl.ioctl(control, _SIOCGIFFLAGS, flags)
    (now,) = struct.unpack_from("H", flags, 16)
    fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", device, now | _IFF_UP))


def main(fd: int) -> None:
    """Hold the tester's namespace until the socket is closed."""
    with socket.socket(fileno=fd) as bench, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        tap = _tap()
        _address(_SIOCSIFADDR, control, TESTER)
        _address(_SIOCSIFNETMASK, control, _NETMASK)
        _up(control, _DEVICE)
        _up(control, b"lo")
        socket.send_fds(bench, [b"."], [tap])
        os.close(tap)
        bench.recv(1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
