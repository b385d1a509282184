"""A board's hardware: identity, supply rails, links."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from attrs import Factory, field, frozen, validators

from lab.boards.markers import check_regex
from lab.boards.release import names_fields
from lab.sleep_modes import SLEEP_MODES

RAIL_OFF_V: Final = 0.1  # below it a rail is off, where the board type does not say otherwise (low_power.near_0_v)


@frozen
class Identity:
    """A board's identity, as its console prints it.

    Attributes:
        hostname: of the default root file system.
        model: the device tree's `model`, as U-Boot and the kernel print it.
        board: the EEPROM's board and revision, as U-Boot prints it; empty: not printed.
        chip: family and silicon revision, as U-Boot prints them.
        cpus, cpu_mhz, memory_mib: as Linux sees them.
        memory: its DRAM and data rate as the vendor's guides print them, e.g. "DDR data rate 1600 MT/S"; empty: not
            published.
        mcu: the platform device of the processor that MCU-only keeps running; empty: none.
        simulated_as: the family of lab/virtual/sim/data/families.toml whose U-Boot and kernel a simulated board speaks
            like; empty: the first word of `chip`.
        assumed: fields without a public source: chosen in the likeness of other boards.
    """

    hostname: str
    model: str
    chip: str
    board: str = ""
    mcu: str = ""
    simulated_as: str = ""
    cpus: int = field(default=1, validator=validators.ge(1))
    cpu_mhz: int = field(default=1000, validator=validators.gt(0))
    memory_mib: int = field(default=1024, validator=validators.gt(0))
    memory: str = ""
    assumed: list[str] = field(factory=list, validator=names_fields)


@frozen
class Rail:
    """A supply rail with published power.

    Attributes:
        name: as the guides spell it, e.g. "vdd_core".
        volts: nominal.
        address: I2C address of its current monitor; 0: not public.
        shunt_mohm: that monitor's shunt, in milliohm; 0: not public.
        always_on: it stays on in partial I/O, in which all others must be near 0 V.
        scaled: software sets its voltage (DVFS, AVS), so that it need not be near `volts`.
        range_v: the lowest and the highest voltage that software sets it to; empty: not scaled, or not public.
    """

    name: str
    volts: float = field(validator=validators.gt(0.0))
    address: int = field(default=0, validator=validators.in_(range(0x78)))
    shunt_mohm: float = field(default=0.0, validator=validators.ge(0.0))
    always_on: bool = False
    scaled: bool = False
    range_v: list[float] = field(factory=list)

    @range_v.validator
    def _check_range(self, _attribute: object, value: list[float]) -> None:
        if value and (not self.scaled or len(value) != 2 or not 0.0 < value[0] <= self.volts <= value[1]):
            raise ValueError(
                f"range_v of rail {self.name}: {value} are not the lowest and the highest voltage of a scaled rail, "
                f"with {self.volts:g} V between them"
            )


@frozen
class Link:
    """A network or bus interface and its capacity.

    Attributes:
        name: as Linux calls it, e.g. "eth0". A section goes by it (lab.benchmarks.section.has_link).
        mbit_s: its line rate.
        port: the guides' name of the switch or controller behind an Ethernet port, e.g. "cpsw".
        reference: source, with assumed parts marked; empty: none.
    """

    name: str
    title: str
    mbit_s: float = field(validator=validators.gt(0.0))
    port: str = "cpsw"
    reference: str = ""


# A section names the feature that it needs (lab.benchmarks.section.has_feature); a board type lists those that it has.
FEATURES: Final[Mapping[str, str]] = {
    "audio": "a sound card, captured and played by ALSA",
    "glmark2": "graphics that glmark2 runs on",
    "gfxbench": "graphics whose published numbers are GFXBench's",
    "glbenchmark": "graphics whose published numbers are GLBenchmark's",
}


@frozen
class Benchmarks:
    """Settings that the published numbers of a board type were measured with.

    Attributes:
        interface: the network interface that they are of; one of the type's links.
        audio_period_frames: the period of ALSA.
        tcp_window: the TCP window that the guide states; empty: it states none.
        crypto_module: the kernel module of the crypto accelerator; empty: none, or unknown.
    """

    interface: str = "eth0"
    audio_period_frames: int = field(default=256, validator=validators.gt(0))
    tcp_window: str = ""
    crypto_module: str = ""


WAKE_SOURCES: Final = ("rtc", "uart", "mcu", "wkup", "gpio", "can", "button")
POWER_OFF: Final = "poweroff"  # in place of a value for /sys/power/state


@frozen
class SleepMode:
    """A low-power mode: its entry, its proofs, its way back.

    Attributes:
        title: the vendor's name.
        state: value for /sys/power/state, or POWER_OFF: that command.
        variant: the kernel's name of the suspend, as in "PM: suspend entry (deep)"; empty: it is none.
        boots: the board comes back by a boot, else by a resume.
        woken_by: wake-up sources that end it, the usual one first; empty: all of `low_power.wakes`.
        arm: wake-up source -> further commands that arm it in this mode.
        settings: file of sysfs -> value that the mode needs; read back, and put back afterwards. One that is missing
            may turn it into `turns_into`, without a message.
        commands: further commands before each entry.
        turns_into: the mode that is reached if something stands in the way; empty: none is known.
        entered: regular expression of the console's last line on the way in; empty: none tells it from a power-off.
        signature: regular expression of a console line on the way back that no other mode has; empty: none.
        jumper: position that the mode needs and nothing reports, e.g. "J12 fitted"; the environment says that it is
            set.
        rails_on: rails that stay on beside the `always_on` ones; all others must be near 0 V. Empty, in a mode that
            resumes: none is checked.
        latency_ms: the firmware's time for the way in and back, without the kernel; empty: not public.
        reference: source of all that; empty: assumed.
        assumed: fields without a public source.
    """

    title: str
    state: str
    variant: str = ""
    boots: bool = False
    woken_by: list[str] = Factory(list)
    arm: dict[str, list[str]] = Factory(dict)
    settings: dict[str, str] = Factory(dict)
    commands: list[str] = Factory(list)
    turns_into: str = ""
    entered: str = field(default="", validator=check_regex)
    signature: str = field(default="", validator=check_regex)
    jumper: str = ""
    rails_on: list[str] = Factory(list)
    latency_ms: list[float] = Factory(list)
    reference: str = ""
    assumed: list[str] = field(factory=list, validator=names_fields)

    def __attrs_post_init__(self) -> None:
        if (self.state == POWER_OFF) != (not self.variant):
            raise ValueError(f"{self.title}: a suspend has a variant, and a power-off has none")
        if self.latency_ms and len(self.latency_ms) != 2:
            raise ValueError(f"{self.title}: latency_ms: expected the way in and the way back, got {self.latency_ms}")


@frozen
class WakeSource:
    """A wake-up source's settings.

    Attributes:
        settings: file of sysfs -> value that arms the source; each is read back.
        commands: further commands that arm it.
        afterwards: file of sysfs -> value once the board is back.
        says: known cause and remedy if the armed source does not act; by release where they differ.
        reported: names of `low_power.woken` by which the firmware reports it; empty: unknown.
    """

    settings: dict[str, str] = Factory(dict)
    commands: list[str] = Factory(list)
    afterwards: dict[str, str] = Factory(dict)
    says: str = ""
    reported: list[str] = Factory(list)


@frozen
class Blocker:
    """A known obstacle to sleeping or resuming.

    Attributes:
        check: shell command that succeeds on an affected board.
        says: effect and remedy.
        device: the kind of chip that it matters on ("GP"); empty: all.
    """

    check: str
    says: str
    device: str = ""


@frozen
class LowPowerModes:
    """Sleep and wake-up of a board type.

    Attributes:
        rtc: the clock whose alarm wakes the board.
        asleep_s: silence of the console after which a suspending board is taken to sleep.
        resume_s: limit from a wake-up event to the shell's answer.
        resume_start: regular expressions of the kernel's first line of a resume, the preferred one first. The vendor's
            is "Enabling non-boot CPUs"; the others are for one CPU and for suspend-to-idle.
        wakes: the wake-up sources that the board has, of WAKE_SOURCES.
        blockers: by name.
        modes: mode -> how it is entered, proved and left; a type may know modes that its `sleep` lacks.
        firmware: number of a mode in the firmware's line ("mode:0x1") -> mode; others name none.
        woken: number of a wake-up source there -> source.
        near_0_v: below it a rail is off.
        total_mw: mode -> bounds of the power of all rails in this mode, as evidence that it was reached.
    """

    rtc: str = "rtc0"
    asleep_s: float = field(default=3.0, validator=validators.gt(0.0))
    resume_s: float = field(default=15.0, validator=validators.gt(0.0))
    near_0_v: float = field(default=RAIL_OFF_V, validator=validators.gt(0.0))
    resume_start: list[str] = Factory(lambda: ["Enabling non-boot CPUs"])
    wakes: dict[str, WakeSource] = Factory(dict)
    blockers: dict[str, Blocker] = Factory(dict)
    modes: dict[str, SleepMode] = Factory(dict)
    firmware: dict[str, str] = Factory(dict)
    woken: dict[str, str] = Factory(dict)
    total_mw: dict[str, list[float]] = Factory(dict)

    def __attrs_post_init__(self) -> None:
        for source in self.wakes:
            if source not in WAKE_SOURCES:
                raise ValueError(f"low_power.wakes names {source!r}; the sources are: {', '.join(WAKE_SOURCES)}")
            if unknown := {*self.wakes[source].reported} - {*self.woken.values()}:
                raise ValueError(
                    f"low_power.wakes.{source}.reported names {min(unknown)!r}, which is none of low_power.woken"
                )
        for name, mode in self.modes.items():
            if name not in SLEEP_MODES:
                raise ValueError(f"low_power.modes names {name!r}; the modes are: {', '.join(SLEEP_MODES)}")
            for source in (*mode.woken_by, *mode.arm):
                if source not in WAKE_SOURCES:
                    raise ValueError(
                        f"low_power.modes.{name} names {source!r}; the sources are: {', '.join(WAKE_SOURCES)}"
                    )
        for table, numbers in (("firmware", self.firmware), ("woken", self.woken)):
            for number in numbers:
                if not re.fullmatch(r"0x[0-9a-f]+", number):
                    raise ValueError(
                        f"low_power.{table}: expected a number as the firmware prints it, e.g. 0x1, got {number!r}"
                    )
        for name, bounds in self.total_mw.items():
            if name not in SLEEP_MODES or len(bounds) != 2 or not 0 <= bounds[0] < bounds[1]:
                raise ValueError(f"low_power.total_mw.{name}: expected a mode and [least, most], got {bounds}")
