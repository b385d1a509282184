"""What a board is made of: who it says it is, its supply rails, its links."""

from __future__ import annotations

from typing import Final

from attrs import field, frozen, validators

from lab.boards.release import names_fields

RAIL_OFF_V: Final = 0.1  # below it a rail is off, where the board type does not say otherwise (low_power.near_0_v)


@frozen
class Identity:
    """Who the board says it is, in the words of its console.

    Attributes:
        hostname: of the default root file system.
        model: the device tree's `model`, as U-Boot and the kernel print it.
        board: the EEPROM's board and revision, as U-Boot prints it; empty where it prints none.
        chip: family and silicon revision, as U-Boot prints them.
        cpus, cpu_mhz, memory_mib: as Linux sees them.
        mcu: the platform device of the processor that MCU-only keeps running; empty where there is none.
        simulated_as: the family of virtual/sim/data/families.toml whose U-Boot and kernel a simulated board speaks like; empty:
            the first word of `chip`.
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
    assumed: list[str] = field(factory=list, validator=names_fields)


@frozen
class Rail:
    """A supply rail whose power the guides publish.

    Attributes:
        name: as the guides spell it, e.g. "vdd_core".
        volts: nominal.
        address: I2C address of its current monitor; 0 where no public document says it.
        shunt_mohm: that monitor's shunt, in milliohm; 0 where no public document says it.
        always_on: whether it stays on in partial I/O, in which all others must be near 0 V.
        scaled: whether software sets its voltage (DVFS, AVS), so that it need not be near `volts`.
        range_v: the lowest and the highest voltage that software sets it to; empty: not scaled, or no public source says.
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
                f"range_v of rail {self.name}: {value} are not the lowest and the highest voltage of a scaled rail, with {self.volts:g} "
                "V between them"
            )


@frozen
class Link:
    """A network or bus interface and what it can carry.

    Attributes:
        name: as Linux calls it, e.g. "eth0". A section goes by it (lab.benchmarks.section.has_link).
        mbit_s: its line rate.
        port: what the guides call the switch or controller behind an Ethernet port, e.g. "cpsw".
        reference: where that is from, and what of it is assumed; empty: from nowhere.
    """

    name: str
    title: str
    mbit_s: float = field(validator=validators.gt(0.0))
    port: str = "cpsw"
    reference: str = ""
