"""The kernel's initcalls and systemd's units, with their times.

Which there are, and how long they take: assumed, in the size of public boot logs of AM62x boards. A start's times vary by 1 %.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from attrs import frozen

from lab.virtual.sim.program import NS_PER_MS, NS_PER_S

_INITCALLS_MS: Final[Mapping[str, float]] = {
    "cpu_suspend_init": 0.1,
    "asids_init": 0.1,
    "spawn_ksoftirqd": 0.6,
    "allocate_overflow_stacks": 0.1,
    "ti_sci_init": 5.2,
    "k3_chipinfo_driver_init": 1.1,
    "of_platform_default_populate_init": 48.0,
    "ti_sci_pm_domain_driver_init": 6.4,
    "omap_i2c_init_driver": 9.8,
    "init_machine_late": 0.2,
    "populate_rootfs": 1.3,
    "udma_driver_init": 12.5,
    "k3_dma_driver_init": 4.1,
    "omap8250_platform_driver_init": 11.0,
    "spi_nor_driver_init": 2.6,
    "cqspi_platform_driver_init": 34.0,
    "davinci_mdio_init": 62.0,
    "am65_cpsw_nuss_driver_init": 41.0,
    "xhci_plat_init": 28.0,
    "sdhci_am654_driver_init": 66.0,
    "tidss_platform_driver_init": 18.0,
    "sa_ul_driver_init": 8.7,
    "crypto_algapi_init": 17.0,
    "clk_disable_unused": 5.5,
    "genpd_power_off_unused": 3.9,
    "deferred_probe_initcall": 52.0,
    "ip_auto_config": 0.4,
}
_PROBES: Final[Mapping[str, tuple[str, float]]] = {  # device -> the initcall that it is in, and its share
    "fa10000.mmc": ("sdhci_am654_driver_init", 0.55),
    "fa00000.mmc": ("sdhci_am654_driver_init", 0.3),
    "8000f00.mdio": ("davinci_mdio_init", 0.9),
    "2860000.serial": ("omap8250_platform_driver_init", 0.3),
}
_UNITS_MS: Final[Mapping[str, float]] = {
    "dev-mmcblk1p2.device": 1830.0,
    "systemd-udev-trigger.service": 412.0,
    "systemd-networkd.service": 240.0,
    "systemd-journal-flush.service": 188.0,
    "systemd-journald.service": 152.0,
    "systemd-resolved.service": 131.0,
    "systemd-udevd.service": 118.0,
    "systemd-timesyncd.service": 96.0,
    "systemd-logind.service": 88.0,
    "systemd-tmpfiles-setup.service": 71.0,
    "dbus.service": 64.0,
    "systemd-remount-fs.service": 52.0,
    "systemd-sysctl.service": 38.0,
    "systemd-user-sessions.service": 17.0,
    "run-lock.mount": 4.0,
}
_CHAIN: Final = (
    "getty.target",
    "serial-getty@ttyS2.service",
    "systemd-user-sessions.service",
    "network.target",
    "systemd-networkd.service",
    "systemd-udevd.service",
)
ANALYSES: Final = ("time", "blame", "critical-chain", "plot")
_DEVIATION: Final = 0.01
_JIFFY_NS: Final = 4 * NS_PER_MS
_MOST: Final = 0.7  # of the kernel's time that its initcalls take


@frozen
class DebugRecord:
    """A line of `initcall_debug`."""

    t_ns: int
    text: str


def initcall_records(
    end_ns: int, dice: random.Random, extra_ns: Callable[[str], int], time_scale: float = 1.0
) -> Iterator[DebugRecord]:
    """The debug lines of a kernel that started init at `end_ns`.

    Args:
        extra_ns: initcall -> what a fault adds; one that is not in the table takes only that.
        time_scale: of the board.
    """
    slow = {name: round(extra_ns(name) * time_scale) for name in _INITCALLS_MS}
    scale = min(time_scale, _MOST * max(0, end_ns - sum(slow.values())) / NS_PER_MS / sum(_INITCALLS_MS.values()))
    lengths = {
        name: round(ms * scale * NS_PER_MS * max(0.5, dice.gauss(1.0, _DEVIATION))) + slow[name]
        for name, ms in _INITCALLS_MS.items()
    }
    gap_ns = max(0, end_ns - sum(lengths.values())) // (len(lengths) + 1)
    at_ns = gap_ns
    for name, length_ns in lengths.items():
        yield DebugRecord(at_ns, f"calling  {name}+0x0/0x1c @ 1")
        probed_ns = at_ns
        for device, (of, share) in _PROBES.items():
            if of == name:
                its_ns = round((length_ns - slow[name]) * share)
                probed_ns += its_ns
                yield DebugRecord(probed_ns, f"probe of {device} returned 0 after {_usecs(probed_ns, its_ns)} usecs")
        at_ns += length_ns
        yield DebugRecord(at_ns, f"initcall {name}+0x0/0x1c returned 0 after {_usecs(at_ns, length_ns)} usecs")
        at_ns += gap_ns


def _usecs(at_ns: int, length_ns: int) -> int:
    """In steps of a jiffy until the clock source is switched."""
    step_ns = _JIFFY_NS if at_ns < 0.3 * NS_PER_S else 1000
    return length_ns // step_ns * step_ns // 1000


def unit_times(dice: random.Random, extra_ns: Callable[[str], int], time_scale: float = 1.0) -> dict[str, int]:
    """Unit -> nanoseconds that it took to become active."""
    return {
        name: round((ms * NS_PER_MS * max(0.5, dice.gauss(1.0, _DEVIATION)) + extra_ns(name)) * time_scale)
        for name, ms in _UNITS_MS.items()
    }


def begun(user_ns: int, units: Mapping[str, int]) -> dict[str, int]:
    """Unit -> nanoseconds from user space's start to its own; those of the critical chain end with user space, one after another."""
    found = {name: user_ns * number // (2 * len(units)) for number, name in enumerate(units, 1)}
    at_ns = user_ns
    for name in _CHAIN:
        at_ns -= units.get(name, 0)
        found[name] = max(0, at_ns)
    return found


def analyzed(what: str, kernel_ns: int, user_ns: int, units: Mapping[str, int]) -> list[str]:
    """The output of `systemd-analyze time`, `blame`, `critical-chain` or `plot`."""
    if what == "blame":
        ordered = sorted(units.items(), key=lambda each: -each[1])
        return [f"{span(length_ns):>9} {name}" for name, length_ns in ordered]
    if what == "critical-chain":
        lines = [
            'The time when unit became active or started is printed after the "@" character.',
            'The time the unit took to start is printed after the "+" character.',
            "",
            f"multi-user.target @{span(user_ns)}",
        ]
        starts = begun(user_ns, units)
        for depth, name in enumerate(_CHAIN):
            took = f" +{span(units[name])}" if name in units else ""
            lines.append(f"{'  ' * depth}└─{name} @{span(starts[name])}{took}")
        return lines
    if what == "plot":
        boxes = "".join(
            f'<text x="0" y="{20 * row}">{name} ({span(ns)})</text>' for row, (name, ns) in enumerate(units.items())
        )
        return [f'<svg xmlns="http://www.w3.org/2000/svg">{boxes}</svg>']
    return [
        f"Startup finished in {span(kernel_ns)} (kernel) + {span(user_ns)} (userspace) = {span(kernel_ns + user_ns)}",
        f"multi-user.target reached after {span(user_ns)} in userspace.",
    ]


def span(ns: int) -> str:
    """A time as systemd prints it, e.g. `1min 9.608s`, `876ms`."""
    if ns < NS_PER_S:
        return f"{ns // NS_PER_MS}ms"
    minutes, rest = divmod(ns, 60 * NS_PER_S)
    return (f"{minutes}min " if minutes else "") + f"{rest / NS_PER_S:.3f}s"
