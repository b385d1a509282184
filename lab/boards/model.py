"""The records of a board type."""

from __future__ import annotations

from attrs import Factory, evolve, field, fields, frozen, validators

from lab.boards.hardware import FEATURES, Benchmarks, Identity, Link, LowPowerModes, Rail
from lab.boards.markers import (
    NORMAL,
    Flow,
    MediumEvidence,
    MomentPattern,
    OwnMoment,
    Sign,
    check_moments,
    check_regex,
    way_of,
)
from lab.boards.release import SdkRelease
from lab.sleep_modes import SLEEP_MODES

# Keys with a reference in the table `references`: facts about the board, and patterns.
FACTS = ("features", *(f"benchmarks.{attribute.name}" for attribute in fields(Benchmarks)))
REFERENCED = (
    "rom",
    "recovery",
    "planned_reset",
    "prompts.uboot",
    "prompts.login",
    "prompts.shell",
    "prompts.autoboot",
    "low_power.resume_start",
    *FACTS,
)


@frozen
class Prompts:
    """The board's prompts; regular expressions over console text.

    Attributes:
        autoboot: U-Boot's countdown line, after which a key stops autoboot.
        username: for login.
        password: empty: none is asked.
    """

    uboot: str = field(validator=check_regex)
    login: str = field(validator=check_regex)
    shell: str = field(validator=check_regex)
    autoboot: str = field(default="Hit any key to stop autoboot", validator=check_regex)
    username: str = "root"
    password: str = ""


@frozen
class Uart:
    """One of the board's UARTs.

    Attributes:
        name: as environments name the port, e.g. "uart0".
        role: "console", or another speaker ("main1", "wkup", "mcu").
        linux: the kernel's name for it; empty: Linux does not own it.
        speed_bd: baud rate; 10 bits a byte (8N1).
    """

    name: str
    role: str
    linux: str = ""
    speed_bd: int = field(default=115200, validator=validators.gt(0))


@frozen
class Medium:
    """A medium that the board can boot from.

    Attributes:
        boot_mode: the value of the boot-mode straps that selects it.
        title: its name in reports.
        root: the kernel's `root=`, without the name of the parameter; empty: not needed.
        uboot: U-Boot's interface to it, as in `load mmc 0:1 …`.
        image: a build's image of a whole medium goes on it.
        parts: files of a build -> their offset in bytes. Both for `lab release make`; without either in a board type,
            the places of TI's K3 boards are used.
        mb_s: the most that its bus can carry, in MB/s; 0: unknown.
    """

    title: str
    boot_mode: int = field(default=0, validator=validators.ge(0))
    root: str = ""
    uboot: str = "mmc"
    image: bool = False
    parts: dict[str, int] = Factory(dict)
    mb_s: float = field(default=0.0, validator=validators.ge(0.0))


@frozen
class Timeouts:
    """Bounds of one boot, in seconds.

    Attributes:
        first_byte_s: power on -> first byte.
        off_silence_s: required silence of a switched-off board, half of it after a key was sent to it.
        hang_silence_s: maximum silence of a booting board.
        boot_s: power on -> login prompt.
        discharge_s: least time between off and on, so that the supplies fall; off is verified meanwhile.
        settle_s: time to watch a boot beyond its prompt, for a failure or a false prompt.
    """

    first_byte_s: float = 5.0
    off_silence_s: float = 0.5
    hang_silence_s: float = 30.0
    boot_s: float = 120.0
    discharge_s: float = 2.0
    settle_s: float = 1.0


@frozen
class BoardType:
    """A kind of board.

    Attributes:
        name: as the performance guides spell it, e.g. "am62xx_sk".
        moments: in the order of a healthy boot.
        boot_mode_bits: number of strap lines, bit 0 first; 0: none, the medium is what the board is set to.
        flows: other ways to boot, by name; `moments` are those of the usual way, "normal".
        rom: console text of a boot ROM that found nothing to boot and asks for it over the UART, from power on; empty:
            it is silent, or unknown.
        recovery: way -> value of the boot-mode straps with which the ROM waits for a program there: "uart" or "usb".
        planned_reset: regular expression of a line after which the board begins once more, as it should.
        failures: console text -> failure class of a boot that shows it, e.g. a kernel panic.
        troubles: console text -> flag of a boot with it; the boot may have continued normally.
        references: sources of patterns and facts without their own, by their names of `REFERENCED`.
        identity: of the board.
        init: U-Boot's variable and its value to run `{init}` in place of the default; empty:
            unknown.
        rails, links: of the board.
        features: further ones for benchmarks, of lab.boards.hardware.FEATURES.
        benchmarks: settings of its published numbers.
        sleep: the low-power modes that it supports, of lab.sleep_modes.
        low_power: sleep and wake-up.
        releases: by name, e.g. "11.01", oldest first.
        own_moments: further lines that each boot is timed to, e.g. of its application.
        assumed: places of values without a public source, e.g. "media.emmc.boot_mode", beside those that say so
            themselves.
    """

    name: str
    title: str
    soc: str
    prompts: Prompts
    uarts: list[Uart]
    media: dict[str, Medium]
    moments: list[MomentPattern]
    evidence: list[MediumEvidence]
    boot_mode_bits: int = field(default=0, validator=validators.in_(range(33)))
    timeouts: Timeouts = Timeouts()
    flows: dict[str, Flow] = field(factory=dict)
    rom: str = field(default="", validator=check_regex)
    recovery: dict[str, int] = field(factory=dict)
    planned_reset: str = field(default="", validator=check_regex)
    failures: dict[str, Sign] = field(factory=dict)
    troubles: dict[str, Sign] = field(factory=dict)
    references: dict[str, str] = field(factory=dict)
    virtual: bool = False
    identity: Identity | None = None
    init: str = ""
    rails: list[Rail] = Factory(list)
    links: list[Link] = Factory(list)
    features: list[str] = Factory(list)
    benchmarks: Benchmarks = Factory(Benchmarks)
    sleep: list[str] = Factory(list)
    low_power: LowPowerModes = Factory(LowPowerModes)
    releases: dict[str, SdkRelease] = Factory(dict)
    own_moments: list[OwnMoment] = Factory(list)
    assumed: list[str] = Factory(list)

    def __attrs_post_init__(self) -> None:
        self._check_straps()
        for evidence in self.evidence:
            for medium_name in evidence.media.values():
                if medium_name not in self.media:
                    raise ValueError(f"evidence {evidence.source!r} names {medium_name!r}, which is not under media")
        for text in (*self.failures, *self.troubles):
            check_regex(self, None, text)
        check_moments("moments", self.moments)
        for where in self.references:
            if where not in REFERENCED:
                raise ValueError(f"references names {where!r}; it may name: {', '.join(REFERENCED)}")
        for name, flow in self.flows.items():
            self._check_flow(name, flow)
        self._check_features()
        for mode in self.sleep:
            self._check_mode(mode)
        for place in self.assumed:
            self._check_place(place)
        for name, release in self.releases.items():
            self._check_published(f"releases.{name!r}.published", release)

    def _check_straps(self) -> None:
        for name, medium in self.media.items():
            if medium.boot_mode >= 1 << self.boot_mode_bits:
                raise ValueError(
                    f"media.{name}.boot_mode = {medium.boot_mode:#x} needs more than {self.boot_mode_bits} straps"
                )
        for way, value in self.recovery.items():
            if way not in {"uart", "usb"} or value >= 1 << self.boot_mode_bits:
                raise ValueError(
                    f"recovery.{way} = {value:#x}: a way is uart or usb, and its value has {self.boot_mode_bits} straps"
                )

    def _check_features(self) -> None:
        for feature in self.features:
            if feature not in FEATURES:
                raise ValueError(f"features names {feature!r}; the features are: {', '.join(FEATURES)}")
        interface, links = self.benchmarks.interface, [link.name for link in self.links]
        if interface != Benchmarks().interface and interface not in links:
            raise ValueError(f"benchmarks.interface names {interface!r}, which is not under links")

    def _check_place(self, place: str) -> None:
        """A place of `assumed` is there."""
        value: object = self
        for word in place.split("."):
            if isinstance(value, dict):
                value = value.get(word)
            elif isinstance(value, list):
                value = next((entry for entry in value if getattr(entry, "name", "") == word), None)
            else:
                value = getattr(value, word, None)
            if value is None:
                raise ValueError(f"assumed names {place!r}, and there is no {word!r}")

    def _check_mode(self, name: str) -> None:
        """A mode of `sleep` is described, and what it names is there."""
        if name not in SLEEP_MODES:
            raise ValueError(f"sleep names {name!r}; the low-power modes are: {', '.join(SLEEP_MODES)}")
        if name not in self.low_power.modes:
            raise ValueError(f"sleep names {name!r}, which is not under low_power.modes")
        mode = self.low_power.modes[name]
        here = {
            "woken_by": (mode.woken_by, list(self.low_power.wakes), "low_power.wakes"),
            "arm": (mode.arm, list(self.low_power.wakes), "low_power.wakes"),
            "rails_on": (mode.rails_on, [rail.name for rail in self.rails], "rails"),
        }
        for key, (names, described, place) in here.items():
            for unknown in names:
                if unknown not in described:
                    raise ValueError(f"low_power.modes.{name}.{key} names {unknown!r}, which is not under {place}")

    def _check_flow(self, name: str, flow: Flow) -> None:
        where = f"flows.{name}"
        if name == NORMAL:
            raise ValueError(f"{where}: {NORMAL} is the flow of `moments`")
        if way_of(name) != name:
            raise ValueError(f"{where}: such a name is given to boots of a quiet kernel; choose another one")
        check_moments(f"{where}.moments", self.flow(name))
        names = [moment.name for moment in flow.moments]
        for moment in (flow.start, *filter(None, [flow.until, flow.shown_by])):
            if moment not in names:
                raise ValueError(f"{where} names {moment!r}, which is not under its moments")

    def _check_published(self, where: str, release: SdkRelease) -> None:
        published = release.published
        for medium in (*published.boot_s, *published.shell_boot_s, *published.uboot_kib_s):
            if medium not in self.media:
                raise ValueError(f"{where} names {medium!r}, which is not under media")
        for mode in (*published.sleep_mw, *published.resume_ms):
            if mode not in self.sleep:
                raise ValueError(f"{where} names {mode!r}, which is not under sleep")
        rail_names = {rail.name for rail in self.rails}
        for mode, rails in published.sleep_mw.items():
            for rail in rails:
                if rail not in rail_names:
                    raise ValueError(f"{where}.sleep_mw.{mode} names {rail!r}, which is not under rails")

    def flow(self, name: str) -> list[MomentPattern]:
        """The moments of that flow in order, also with quiet kernel."""
        name = way_of(name)
        if name == NORMAL:
            return self.moments
        usual = {moment.name: moment for moment in self.moments}
        return [
            evolve(moment, **{key: getattr(usual[moment.name], key) for key in ("pattern", "line_start", "reference")})
            if not moment.pattern and moment.name in usual
            else moment
            for moment in self.flows[name].moments
        ]

    @property
    def markers(self) -> list[MomentPattern]:
        """The moments of all flows, each once, as console patterns."""
        by_name = {moment.name: moment for name in self.flows for moment in self.flow(name)}
        usual = {moment.name for moment in self.moments}
        return [*(moment for moment in by_name.values() if moment.name not in usual), *self.moments]

    def recovery_by(self, boot_mode: int) -> str:
        """The ROM's recovery way by straps, "uart" or "usb"; empty: a medium."""
        return next((way for way, value in self.recovery.items() if value == boot_mode), "")

    def switches(self, boot_mode: int) -> str:
        """Return the positions of boot-mode switches that are set by hand.

        B0 comes first, 1 is on, e.g. `11000010 01000000`; empty: the board has none.
        """
        bits = [str(boot_mode >> bit & 1) for bit in range(self.boot_mode_bits)]
        return " ".join("".join(bits[start : start + 8]) for start in range(0, len(bits), 8))

    @property
    def media_straps(self) -> list[int]:
        """The straps that differ between media and must be driven."""
        values = [medium.boot_mode for medium in self.media.values()]
        return [bit for bit in range(self.boot_mode_bits) if len({value >> bit & 1 for value in values}) > 1]

    @property
    def fixed_straps(self) -> int:
        """The switch setting of all straps but `media_straps`."""
        driven = sum(1 << bit for bit in self.media_straps)
        return next(iter(self.media.values())).boot_mode & ~driven

    @property
    def console(self) -> Uart:
        """The UART with U-Boot's and Linux's console."""
        return next(uart for uart in self.uarts if uart.role == "console")
