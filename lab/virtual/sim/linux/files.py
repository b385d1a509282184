"""The file system: the image's files, written ones, proc and sysfs."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Callable
from typing import TypeAlias

from attrs import frozen

from lab.virtual.sim.linux import image
from lab.virtual.sim.linux.kernel import Kernel
from lab.virtual.sim.linux.sleep import S2IDLE, Sleeper
from lab.virtual.sim.model import mac_address, serial_number
from lab.virtual.sim.program import NS_PER_S, Program
from lab.virtual.sim.setup import FALCON

_FOLDERS = frozenset({"/", "/home", "/home/root", "/root", "/tmp", "/dev", "/dev/shm", "/run", "/var", "/opt", "/mnt"})  # noqa: S108
_DEVICES = frozenset({"/dev/null", "/dev/zero", "/dev/rtc", "/dev/rtc0", "/dev/console", "/dev/kmsg", "/dev/tty"})
_VOLATILE = ("/tmp/", "/dev/shm/", "/run/")  # noqa: S108


def normalise(name: str, folder: str) -> str:
    """An absolute path without dots."""
    path = posixpath.normpath(posixpath.join(folder, name))
    return "/" + path.lstrip("/")


class Files:
    """All files as one session sees them.

    Attributes:
        sleeper: suspends the kernel when /sys/power/state is written.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.sleeper = Sleeper(kernel)
        self._nodes = make(kernel, self.sleeper)
        self._kept = kernel.computer.storage.files
        self._volatile = kernel.computer.memory = {}
        self._folders = set(_FOLDERS)

    def read(self, path: str) -> bytes | None:
        """A file's content; None: there is none."""
        if path in self._nodes:
            return self._nodes[path].read().encode()
        if path in _DEVICES:
            return b""
        return self._volatile.get(path, self._kept.get(path))

    def write(self, path: str, data: bytes, *, append: bool = False) -> Program[str]:
        """Write a file; returns what went wrong."""
        node = self._nodes.get(path)
        if node is not None:
            if node.write is None:
                return f"{path}: Permission denied"
            problem = yield from node.write(data.decode(errors="replace").strip())
            return problem and f"{path}: {problem}"
        if path == "/dev/kmsg":
            text = data.decode(errors="replace").rstrip("\n")
            given = re.match(r"<(\d+)>", text)  # of facility and level; the kernel's facility is nobody else's
            number = int(given[1]) if given else 4
            yield from self._kernel.printk(text[given.end() if given else 0 :], number & 7, number >> 3 or 1)
        elif path == "/dev/tty":
            yield from self._kernel.computer.write(data)
        elif path.startswith(("/sys/", "/proc/")):
            return f"{path}: No such file or directory"
        elif path in _DEVICES:
            pass
        elif self.is_folder(path):
            return f"{path}: Is a directory"
        elif not self.is_folder(posixpath.dirname(path)):
            return f"{path}: No such file or directory"
        else:
            before = (self.read(path) or b"") if append else b""
            store = self._volatile if path.startswith(_VOLATILE) else self._kept
            store[path] = before + data
        return ""

    def remove(self, path: str) -> bool:
        """Remove a file; returns whether there was one."""
        return self._volatile.pop(path, self._kept.pop(path, None)) is not None

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it."""
        while path != "/":
            self._folders.add(path)
            path = posixpath.dirname(path)

    def is_folder(self, path: str) -> bool:
        """Return whether a path is a folder."""
        return path in self._folders or any(name.startswith(path.rstrip("/") + "/") for name in self.all())

    def all(self) -> list[str]:
        """Every file's path."""
        return [*self._nodes, *_DEVICES, *self._kept, *self._volatile]

    def matching(self, pattern: str) -> list[str]:
        """Files and folders that a pattern names; `*` stays within one folder."""
        wanted = pattern.rstrip("/").split("/")
        found = set()
        for path in [*self.all(), *self._folders]:
            parts = path.split("/")[: len(wanted)]
            if len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted)):
                found.add("/".join(parts) + ("/" if pattern.endswith("/") else ""))
        return sorted(found)


# --- Files of proc and sysfs ---


_OMAP = "omap-aes-driver"  # the kernel module of OMAP's accelerators

Write: TypeAlias = Callable[[str], Program[str]]


@frozen
class Node:
    """A file whose content is made when it is read.

    Attributes:
        write: does what writing does, and returns what went wrong; None: it cannot be written.
    """

    read: Callable[[], str]
    write: Write | None = None


def make(kernel: Kernel, sleeper: Sleeper) -> dict[str, Node]:
    """All nodes of a running kernel."""
    return {
        **{path: Node(read) for path, read in image.files(kernel).items()},
        "/proc/sys/vm/drop_caches": _setting(kernel.settings, "drop_caches", "0"),
        **_proc(kernel),
        **_processors(kernel),
        **_devices(kernel, sleeper),
        **_accelerators(kernel),
        **_power(kernel, sleeper),
    }


def _fixed(text: str) -> Node:
    return Node(lambda: text)


def _setting(settings: dict[str, str], name: str, default: str, allowed: frozenset[str] = frozenset()) -> Node:
    """A value that can be written; anything goes unless `allowed` says what."""

    def write(text: str) -> Program[str]:
        yield from ()
        if allowed and text not in allowed:
            return "write error: Invalid argument"
        settings[name] = text
        return ""

    settings.setdefault(name, default)
    return Node(lambda: settings[name] + "\n", write)


def _proc(kernel: Kernel) -> dict[str, Node]:
    model = kernel.computer.model

    def printk(text: str) -> Program[str]:
        yield from ()
        level = text.split(maxsplit=1)[0] if text.split() else ""
        if not level.isdigit():
            return "write error: Invalid argument"
        kernel.console_level = int(level)
        return ""

    memory_kb = model.identity.memory_mib * 1024 - 262_144
    machine = f"{model.identity.model}\0"
    cpus = "".join(
        f"processor\t: {cpu}\nBogoMIPS\t: 400.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd03\n\n"
        for cpu in range(model.identity.cpus)
    )
    by_uboot = {"/proc/device-tree/chosen/u-boot,version": _fixed(model.release.uboot.split()[0] + "\0")}
    release = model.release.kernel.split()[0]
    return {
        f"/lib/modules/{release}/modules.dep": _fixed(f"kernel/drivers/net/{release}.ko:\n"),
        "/sys/firmware/fdt": _fixed(f"{machine} {model.release.kernel}\n"),
        **(by_uboot if kernel.computer.setup.flow != FALCON else {}),
        "/proc/cmdline": Node(lambda: kernel.bootargs + "\n"),
        "/proc/version": Node(
            lambda: next((r.text for r in kernel.log if r.text.startswith("Linux version ")), "") + "\n"
        ),
        "/proc/uptime": Node(lambda: f"{kernel.clock_ns / NS_PER_S:.2f} {kernel.clock_ns * 3 / NS_PER_S:.2f}\n"),
        "/proc/stat": Node(lambda: _cpu_times(kernel)),
        "/proc/loadavg": _fixed("0.08 0.12 0.05 1/148 512\n"),
        "/proc/cpuinfo": _fixed(cpus),
        "/proc/meminfo": _fixed(f"MemTotal:       {memory_kb} kB\nMemFree:        {memory_kb * 4 // 5} kB\n"),
        "/proc/device-tree/model": _fixed(machine),
        "/sys/firmware/devicetree/base/model": _fixed(machine),
        "/proc/device-tree/serial-number": _fixed(serial_number(kernel.computer.seed) + "\0"),
        "/proc/sys/kernel/printk": Node(lambda: f"{kernel.console_level}\t4\t1\t7\n", printk),
        "/proc/1/comm": _fixed("systemd\n"),
        "/proc/1/stat": Node(lambda: _stat(1, "systemd", 0, 3 * _TICK_NS)),
        f"/proc/{LOGIN_PID}/stat": Node(lambda: _stat(LOGIN_PID, "login", 1, kernel.getty_ns)),
        f"/proc/{SHELL_PID}/stat": Node(lambda: _stat(SHELL_PID, "sh", LOGIN_PID, kernel.clock_ns)),
        "/proc/self/stat": Node(lambda: _stat(LOGIN_PID + 60, "cat", LOGIN_PID + 59, kernel.clock_ns)),
        "/proc/sys/kernel/random/boot_id": Node(lambda: kernel.boot_id + "\n"),
        "/proc/sys/kernel/tainted": Node(lambda: f"{kernel.taint}\n"),
        "/etc/hostname": _fixed(model.identity.hostname + "\n"),
        "/etc/issue": _fixed(f"{model.release.distribution} \\n \\l\n\n"),
        "/etc/os-release": _fixed(f'ID="arago"\nPRETTY_NAME="{model.release.distribution}"\n'),
    }


LOGIN_PID = 412  # the process that prints the prompt, and becomes login
SHELL_PID = 471
_TICK_NS = 10_000_000  # 1/USER_HZ


def _cpu_times(kernel: Kernel) -> str:
    """Work and idle time of each processor."""
    busy, ticks = kernel.busy_ns // _TICK_NS, kernel.clock_ns // _TICK_NS
    cpus = range(kernel.computer.model.identity.cpus)
    return "".join(f"cpu{cpu} {busy} 0 0 {ticks - busy} 0 0 0 0 0 0\n" for cpu in cpus)


def _stat(pid: int, name: str, parent: int, start_ns: int) -> str:
    """A process as proc(5) has it: 22 fields of 52; its terminal is the console."""
    terminal = 0 if parent == 0 else 1088
    return f"{pid} ({name}) S {parent} {pid} {pid} {terminal} {pid} {'0 ' * 13}{start_ns // _TICK_NS} 0 0\n"


def _processors(kernel: Kernel) -> dict[str, Node]:
    identity = kernel.computer.model.identity
    governors = ("conservative", "ondemand", "userspace", "powersave", "performance", "schedutil")
    nodes = {}
    for cpu in range(identity.cpus):
        base = f"/sys/devices/system/cpu/cpu{cpu}"
        nodes[f"{base}/online"] = _fixed("1\n")
        nodes[f"{base}/cpufreq/scaling_governor"] = _setting(
            kernel.settings, f"governor{cpu}", "schedutil", frozenset(governors)
        )
        nodes[f"{base}/cpufreq/scaling_available_governors"] = _fixed(" ".join(governors) + "\n")
        for name in ("scaling_cur_freq", "cpuinfo_max_freq", "scaling_max_freq"):
            nodes[f"{base}/cpufreq/{name}"] = _fixed(f"{identity.cpu_mhz * 1000}\n")
    return nodes


def _devices(kernel: Kernel, sleeper: Sleeper) -> dict[str, Node]:
    model = kernel.computer.model
    base = f"/sys/bus/platform/devices/{model.family.uart_base}.serial"
    tty = model.board.console.linux

    def console(text: str) -> Program[str]:
        yield from kernel.attach_console(attached=text.upper() in {"Y", "1"})
        return ""

    clock = f"/sys/class/rtc/{model.board.low_power.rtc}"
    attached = Node(lambda: "Y\n" if kernel.console_attached else "N\n", console)
    nodes = {
        **{f"/sys/class/tty/{uart.linux}/console": _fixed("N\n") for uart in model.board.uarts if uart.linux},
        f"/sys/class/tty/{tty}/console": attached,
        f"{base}/{model.family.uart_base}.serial:0/tty/{tty}/console": attached,
        f"{base}/power/wakeup": _setting(kernel.settings, "uart_wakeup", "disabled"),
        f"{base}/power/control": _setting(kernel.settings, "uart_control", "on"),
        f"{base}/power/autosuspend_delay_ms": _setting(kernel.settings, "uart_autosuspend", "-1"),
        f"/sys/class/tty/{tty}/power/wakeup": _setting(kernel.settings, "tty_wakeup", "disabled"),
        f"{clock}/name": _fixed("rtc-ti-k3 2b1f0000.rtc\n"),
        f"{clock}/since_epoch": Node(lambda: f"{int(sleeper.wall_s)}\n"),
        f"{clock}/wakealarm": Node(lambda: sleeper.alarm_text, sleeper.set_alarm),
        **{
            path: _setting(kernel.settings, path, "enabled")
            for mode in model.board.sleep
            for path in model.board.low_power.modes[mode].settings
            if path != f"{base}/power/wakeup"
        },
        "/sys/class/thermal/thermal_zone0/temp": _fixed("45312\n"),
    }
    if model.identity.mcu:
        nodes[f"/sys/bus/platform/devices/{model.identity.mcu}/power/wakeup"] = _setting(
            kernel.settings, "mcu_wakeup", "disabled"
        )
    for number, link in enumerate(model.board.links):
        if link.name.startswith("eth"):
            nodes[f"/sys/class/net/{link.name}/address"] = _fixed(mac_address(kernel.computer.seed, number) + "\n")
            nodes[f"/sys/class/net/{link.name}/speed"] = _fixed(f"{link.mbit_s:.0f}\n")
            nodes[f"/sys/class/net/{link.name}/operstate"] = _fixed("up\n")
    return nodes


def _accelerators(kernel: Kernel) -> dict[str, Node]:
    """OMAP's accelerators with the defaults of Linux drivers/crypto/omap-aes.c and omap-sham.c; addresses: am4372.dtsi."""
    if kernel.computer.model.board.benchmarks.crypto_module != _OMAP:
        return {}
    devices = {"omap-aes/53501000.aes": "200", "omap-sham/53100000.sham": "256"}
    return {
        f"/sys/bus/platform/drivers/{device}/{name}": _setting(kernel.settings, f"{device} {name}", default)
        for device, fallback in devices.items()
        for name, default in (("queue_len", "10"), ("fallback", fallback))
    }


def _power(kernel: Kernel, sleeper: Sleeper) -> dict[str, Node]:
    def state(text: str) -> Program[str]:
        if text not in {"mem", "freeze"} or not sleeper.supported:
            return "write error: Invalid argument"
        return (yield from sleeper.suspend(None if text == "mem" else S2IDLE))

    def failed(name: str) -> Node:
        return Node(lambda: f"{kernel.last_failed[name]}\n")

    def count(name: str) -> Node:
        return Node(lambda: f"{kernel.suspend_stats[name]}\n")

    variants = frozenset({"s2idle", "deep"} if sleeper.supported else {"s2idle"})
    mem_sleep = _setting(kernel.settings, "mem_sleep", "deep" if sleeper.supported else "s2idle", variants)

    def selected() -> str:
        return (
            " ".join(
                f"[{each}]" if each == kernel.settings["mem_sleep"] else each
                for each in sorted(variants, reverse=True)
            )
            + "\n"
        )

    return {
        "/sys/power/state": Node(lambda: "freeze mem\n" if sleeper.supported else "freeze\n", state),
        "/sys/power/mem_sleep": Node(selected, mem_sleep.write),
        **{f"/sys/power/suspend_stats/{name}": count(name) for name in kernel.suspend_stats},
        **{f"/sys/power/suspend_stats/last_failed_{name}": failed(name) for name in kernel.last_failed},
        "/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us": _setting(kernel.settings, "qos", "0"),
    }
