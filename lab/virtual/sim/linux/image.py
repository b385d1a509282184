"""Benchmark files in the file system of a simulated board."""

from __future__ import annotations

from collections.abc import Callable

from lab.virtual.sim.linux.kernel import Kernel

_SUITES = (
    "/opt/eembc/coremark-pro/Makefile",
    "/opt/eembc/multibench/Makefile",
    "/opt/gfxbench/testfw_app",
    "/opt/glbenchmark/GLBenchmark2",
)
_CARDS = {"emmc": "S0J56X", "sd": "SR32G"}
_MTD = (
    'dev:    size   erasesize  name\nmtd0: 00080000 00040000 "ospi.tiboot3"\nmtd1: 00200000 00040000 "ospi.tispl"\n'
    'mtd2: 00400000 00040000 "ospi.u-boot"\nmtd3: 00040000 00040000 "ospi.env"\nmtd4: 00040000 00040000 "ospi.env.backup"\n'
    'mtd5: 037c0000 00040000 "ospi.rootfs"\nmtd6: 00040000 00040000 "ospi.phypattern"\n'
)
_CRYPTO = "name         : cbc(aes)\ndriver       : cbc-aes-{driver}\nmodule       : kernel\npriority     : {priority}\nrefcnt       : 1\n\n"


def files(kernel: Kernel) -> dict[str, Callable[[], str]]:
    """Path -> content."""
    model = kernel.computer.model
    root = _root(model.board.media[kernel.root_medium].root)
    kind = "ubifs" if root.startswith("ubi") else "jffs2" if root.startswith("mtdblock") else "ext4"
    source = root if kind == "ubifs" else "/dev/root"
    found: dict[str, Callable[[], str]] = {
        "/proc/asound/card0/id": lambda: "AM62xSKEVM\n",
        "/sys/class/drm/card0-HDMI-A-1/status": lambda: "connected\n",
        "/proc/mtd": lambda: _MTD,
        "/proc/filesystems": lambda: "nodev\tproc\n\text3\n\text2\n\text4\n\tvfat\nnodev\tubifs\n",
        "/proc/mounts": lambda: (
            f"{root if kind == 'ubifs' else '/dev/' + root} / {kind} rw,relatime 0 0\nproc /proc proc rw,relatime 0 0\n"
        ),
        "/proc/self/mountinfo": lambda: f"22 1 {_numbers(root)} / / rw,relatime - {kind} {source} rw\n",
        f"/sys/dev/block/{_numbers(root)}/uevent": lambda: (
            f"MAJOR={_numbers(root).partition(':')[0]}\nDEVNAME={root}\nDEVTYPE=partition\n"
        ),
        "/proc/crypto": lambda: _crypto(kernel),
        "/dev/urandom": lambda: "",
        "/dev/loop0": lambda: "",
    }
    found |= {path: lambda: "#\n" for path in _SUITES}
    for number, name in model.mmc_media.items():
        found[f"/sys/block/mmcblk{number}/device/name"] = _text(_CARDS[name])
        for partition in (1, 2, 3):
            device = f"mmcblk{number}p{partition}"
            found[f"/dev/{device}"] = _text("")
            found[f"/sys/class/block/{device}/dev"] = _text(_numbers(device))
    if "nand" in model.board.media:
        found["/dev/mtd9"] = lambda: ""
    interfaces = [link.name for link in model.board.links if not link.name.startswith("usb")]
    found |= {f"/sys/class/net/{name}/operstate": lambda: "up\n" for name in interfaces}
    for link in ("eth0", "eth1", "can0"):
        found[f"/sys/class/net/{link}/statistics/tx_packets"] = lambda: kernel.settings.get("packets", "1000") + "\n"
        found[f"/sys/class/net/{link}/statistics/rx_packets"] = lambda: "0\n"
    return found


def _crypto(kernel: Kernel) -> str:
    text = _CRYPTO.format(driver="ce", priority=300)
    module = kernel.settings.get("accelerator", "")
    return text + (_CRYPTO.format(driver=module, priority=400) if module else "")


def _text(text: str) -> Callable[[], str]:
    return lambda: f"{text}\n" if text else ""


def _numbers(device: str) -> str:
    """Major and minor number of a partition.

    The kernel gives mmcblk eight minors a device.
    """
    if device.startswith("mmcblk"):
        return f"179:{8 * int(device[6]) + int(device[-1])}"
    return f"31:{device[-1]}" if device.startswith("mtdblock") else "0:1"


def _root(text: str) -> str:
    return "mmcblk1p2" if text.startswith("PARTUUID") else text.removeprefix("/dev/")
