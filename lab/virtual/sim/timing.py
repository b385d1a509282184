"""The duration of each stage of a simulated boot, and repeatable chance.

From "Starting kernel" to the login prompt it is the figure that the guide of the release published for the medium,
where there is one. Everything else is in `data/timing.toml`, each figure with its source; most are assumed, in the size
of public boot logs. Every draw follows from the board's seed, its cycle, and what is drawn.
"""

from __future__ import annotations

import random
import tomllib
from importlib import resources

import cattrs
from attrs import field, frozen, validators

from lab.boards import PublishedRange, SdkRelease
from lab.host.clock import NS_PER_S

# --- Repeatable random numbers ---


CUT_SIGMA = 3.0  # draws beyond are drawn again
# The expected range of 20 normal draws in standard deviations (Tippett 1925); the guides publish the range of 20 cycles.
RANGE_OF_20_SIGMA = 3.735


@frozen
class Normal:
    """A normal distribution, cut at three standard deviations.

    Attributes:
        mean, sd: in the unit of the caller.
    """

    mean: float
    sd: float = field(default=0.0, validator=validators.ge(0.0))

    @classmethod
    def of(cls, figure: PublishedRange) -> Normal:
        """Distribution of published mean, minimum and maximum over 20 cycles."""
        return cls(figure.mean, (figure.max - figure.min) / RANGE_OF_20_SIGMA)

    def draw(self, dice: random.Random) -> float:
        """A value within the cut."""
        while True:
            value = dice.gauss(0.0, 1.0)
            if abs(value) <= CUT_SIGMA:
                return self.mean + value * self.sd


def dice(seed: int, *what: object) -> random.Random:
    """Repeatable random source for one purpose.

    The same arguments give the same draws, on any machine and Python.
    """
    return random.Random(":".join(str(part) for part in (seed, *what)))  # noqa: S311 - repeatable, not secret


# --- Durations of a boot's stages ---
# From "Starting kernel" to the login prompt it is the figure that the guide of the release published for the medium,
# where there is one. Everything else is in `data/timing.toml`, each figure with its source; most are assumed, in the size
# of public boot logs.


@frozen
class Sourced(Normal):
    """A distribution, or only its mean, and where it is from.

    Attributes:
        source: of the figures; "assumed" where there is no public one.
    """

    source: str = field(kw_only=True, validator=validators.min_len(1))


@frozen
class Profile:
    """The distributions of a family of boards, in seconds.

    Attributes:
        rom: power on -> first byte of SPL.
        spl: -> TF-A.
        tfa: -> U-Boot.
        uboot: -> its countdown.
        entry: "Starting kernel" -> the kernel's clock starts.
        early: -> its console.
        kernel: "Starting kernel" -> init.
        boot: "Starting kernel" -> login prompt, where nothing is published.
        shell_boot: the same to the shell of init=/bin/sh.
        sbl: the same as spl, with the bootloader of the MCU+ SDK.
        falcon: -> TF-A, with the kernel in memory.
        load_mib_s: medium -> what U-Boot reads from it, where nothing is published.
    """

    rom: Sourced
    spl: Sourced
    tfa: Sourced
    uboot: Sourced
    entry: Sourced
    early: Sourced
    kernel: Sourced
    boot: dict[str, Sourced]
    shell_boot: dict[str, Sourced]
    load_mib_s: dict[str, Sourced]
    sbl: Sourced
    falcon: Sourced


@frozen
class Durations:
    """One cycle's stages, drawn; in nanoseconds."""

    rom_ns: int
    spl_ns: int
    tfa_ns: int
    uboot_ns: int
    entry_ns: int
    early_ns: int
    kernel_ns: int
    boot_ns: int
    shell_boot_ns: int
    sbl_ns: int
    falcon_ns: int


def profile(family: str) -> Profile:
    """The distributions of a family of boards ("k3", "am43xx")."""
    text = (resources.files("lab.virtual.sim") / "data" / "timing.toml").read_text(encoding="utf-8")
    return cattrs.Converter(forbid_extra_keys=True).structure(tomllib.loads(text)[family], Profile)


def boot_figure(release: SdkRelease, medium: str, made_up: Profile) -> Normal:
    """ "Starting kernel" to the login prompt, in seconds."""
    published = release.published.boot_s.get(medium)
    return Normal.of(published) if published else made_up.boot.get(medium, made_up.boot["sd"])


def shell_boot_figure(release: SdkRelease, medium: str, made_up: Profile) -> Normal:
    """ "Starting kernel" to the prompt of init=/bin/sh, in seconds."""
    published = release.published.shell_boot_s.get(medium)
    return Normal.of(published) if published else made_up.shell_boot.get(medium, made_up.shell_boot["sd"])


def draw(release: SdkRelease, medium: str, made_up: Profile, source: random.Random) -> Durations:
    """The stages of one cycle."""

    def ns(figure: Normal) -> int:
        return round(figure.draw(source) * NS_PER_S)

    return Durations(
        rom_ns=ns(made_up.rom),
        spl_ns=ns(made_up.spl),
        tfa_ns=ns(made_up.tfa),
        uboot_ns=ns(made_up.uboot),
        entry_ns=ns(made_up.entry),
        early_ns=ns(made_up.early),
        kernel_ns=ns(made_up.kernel),
        boot_ns=ns(boot_figure(release, medium, made_up)),
        shell_boot_ns=ns(shell_boot_figure(release, medium, made_up)),
        sbl_ns=ns(made_up.sbl),
        falcon_ns=ns(made_up.falcon),
    )
