"""Model of a simulated board: board type, release, and additions."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any

import cattrs
from attrs import field, frozen

from lab import boards
from lab.boards import BoardType, Identity, Link, SdkRelease
from lab.boards.release import names_fields
from lab.errors import ConfigurationError
from lab.virtual.sim.setup import NORMAL, SimSetup
from lab.virtual.sim.timing import Profile, profile


@frozen
class Family:
    """Common facts of an SoC family that no board type has.

    Attributes:
        profile: of `data/timing.toml`; also the prefix of the family's texts.
        loaders: the prefix of its loaders' texts; empty: the profile.
        mmc: U-Boot's list of MMC hosts.
        net: its network line.
        core: its `Core:` line, from U-Boot 2023 on.
        machine: as `uname -m` says.
        spl_media: how SPL calls each medium, after "Trying to boot from".
        r5_uboot: release -> version and build of the first SPL, where a public log has another than U-Boot's.
        eeprom_moved: the board's EEPROM is not at the first address that U-Boot tries, and U-Boot says so.
        uart_base: address of the console's UART.
        earlycon: the kernel's parameter for it.
        kernel_file: name of the kernel's file.
        kernel_bytes, fdt_bytes: size of the kernel, and of its device tree.
        soc_family: as the kernel's chip driver prints it.
        assumed: fields without a public source.
    """

    profile: str
    mmc: str
    net: str
    uart_base: str
    earlycon: str
    kernel_file: str
    kernel_bytes: int
    fdt_bytes: int
    soc_family: str
    spl_media: dict[str, str]
    loaders: str = ""
    core: str = ""
    eeprom_moved: bool = False
    machine: str = "aarch64"
    r5_uboot: dict[str, str] = field(factory=dict)
    assumed: list[str] = field(factory=list, validator=names_fields)


@frozen
class Model:
    """A board type in one release, ready to be simulated."""

    board: BoardType
    identity: Identity
    release_name: str
    release: SdkRelease
    family: Family
    profile: Profile

    @property
    def kernel_version(self) -> tuple[int, ...]:
        """The first two numbers of the kernel's version."""
        return tuple(int(part) for part in self.release.kernel.split("-")[0].split(".")[:2])

    @property
    def year(self) -> int:
        """Of U-Boot's version."""
        return int(self.release.uboot[:4])

    @property
    def mmc_media(self) -> dict[int, str]:
        """Map MMC device numbers to media, for U-Boot and kernel."""
        devices = {0: "sd"} if self.family.kernel_file == "zImage" else {0: "emmc", 1: "sd"}
        return {number: name for number, name in devices.items() if name in self.board.media}

    @property
    def port(self) -> str:
        """The guides' name of the port with published numbers."""
        return self.link.port if self.link else "cpsw"

    @property
    def line_mbit_s(self) -> float:
        """The line rate of that port."""
        return self.link.mbit_s if self.link else 1000.0

    @property
    def link(self) -> Link | None:
        """The network interface that the published numbers are of."""
        return next((link for link in self.board.links if link.name == self.board.benchmarks.interface), None)

    def facts(self) -> dict[str, Any]:
        """Variables of the texts."""
        identity, release = self.identity, self.release
        return {
            "board": self.board,
            "identity": identity,
            "release": release,
            "family": self.family,
            "hostname": identity.hostname,
            "tty": self.board.console.linux,
            "year": self.year,
            "r5_uboot": self.family.r5_uboot.get(self.release_name, release.uboot),
            "kernel_version": self.kernel_version,
        }

    def root_device(self, medium: str) -> str:
        """Block device of a medium's root file system; empty: in flash."""
        partition = {"sd": 2, "emmc": 1}
        return next((f"mmcblk{n}p{partition[name]}" for n, name in self.mmc_media.items() if name == medium), "")

    def check(self, setup: SimSetup) -> None:
        """Make sure that such a board can have this setup.

        Raises:
            ConfigurationError: it cannot.
        """
        if setup.flow != NORMAL and not self.release.bl31:
            raise ConfigurationError(
                f"{self.board.name!r} has no TF-A, and boots only as {NORMAL!r}; {setup.flow!r} is for TI's K3 boards"
            )

    def spl_medium(self, medium: str) -> str:
        """SPL's name of a medium; SPI flash is NOR by default.

        The board type may say NAND.
        """
        nand = self.family.profile == "k3" and "NAND" in self.board.media[medium].title
        return "SPINAND" if nand else self.family.spl_media[medium]


@cache
def model(board_type: str, release: str | None = None) -> Model:
    """The model of a board type; the newest release unless told which.

    Raises:
        ConfigurationError: no such type or release, or the type says too little to be simulated.
    """
    board = boards.load(board_type)
    if board.identity is None or not board.releases:
        raise ConfigurationError(
            f"board type {board_type!r} cannot be simulated: it has no identity and no releases; "
            f"these can: {', '.join(simulated())}"
        )
    name = release or list(board.releases)[-1]
    if name not in board.releases:
        raise ConfigurationError(
            f"board type {board_type!r} has no release {name!r}; there are: {', '.join(board.releases)}"
        )
    family = _family(board_type, board.identity)
    return Model(board, board.identity, name, board.releases[name], family, profile(family.profile))


def simulated() -> tuple[str, ...]:
    """The board types that can be simulated."""
    return tuple(name for name in boards.names() if is_simulated(name))


def is_simulated(board_type: str) -> bool:
    """Return whether a board type of that name can be simulated."""
    return board_type in boards.names() and bool((board := boards.load(board_type)).identity and board.releases)


def _family(board_type: str, identity: Identity) -> Family:
    families = _families()
    name = identity.simulated_as or identity.chip.replace("-", " ").partition(" ")[0]
    if name not in families:
        raise ConfigurationError(
            f"board type {board_type!r} cannot be simulated: no family {name!r} in lab/virtual/sim/data/families.toml; set its "
            f"identity.simulated_as to the one that it is most like: {', '.join(families)}"
        )
    return families[name]


def _families() -> dict[str, Family]:
    text = (resources.files("lab.virtual.sim") / "data" / "families.toml").read_text(encoding="utf-8")
    return cattrs.Converter(forbid_extra_keys=True).structure(tomllib.loads(text), dict[str, Family])


def serial_number(seed: int) -> str:
    """Serial number in a simulated board's device tree, by seed."""
    return f"sim{seed & 0xFFFFFFFF:08x}"


def mac_address(seed: int, port: int) -> str:
    """Of one of its network interfaces, in a block of Texas Instruments'."""
    return "70:ff:76:" + ":".join(f"{octet:02x}" for octet in ((seed * 4 + port) & 0xFFFFFF).to_bytes(3, "big"))
