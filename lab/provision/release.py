"""Model of a release file: contents of media, sources, expected identity.

docs/releases.md explains every key.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias, get_args

from attrs import Factory, asdict, field, frozen, validators

from lab.boards.markers import check_regex
from lab.redaction import redact

URLS: Final = ("http://", "https://")
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.+-]{0,99}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_PART: Final = re.compile(r"[\w][\w.+-]*")
_WORD: Final = re.compile(r"[\w./:+-]*", re.ASCII)
# What is asked at the prompt -> the command; U-Boot's and the kernel's lines are read on the way to it.
_QUESTIONS: Final = {"build_id": "cat /etc/os-release", "buildinfo": "cat /etc/buildinfo /etc/build"}
_TITLES: Final = {
    "uboot": "U-Boot's version line",
    "kernel": "the kernel's version line",
    "build_id": "BUILD_ID of /etc/os-release",
    "buildinfo": "/etc/buildinfo",
}


def check_name(name: str) -> None:
    """Make sure that a release's name is valid.

    Raises:
        ValueError: the name has other characters.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"name: {name!r:.80}: letters, digits and . + - _ only, as it is the label of runs")


def digest(_instance: object, attribute: Any, value: str) -> None:
    """A SHA-256, or nothing."""
    if value and not _SHA256.fullmatch(value):
        raise ValueError(
            f"{attribute.name}: {value!r:.80}: expected the 64 small hexadecimal digits that sha256sum prints"
        )


def given_digest(instance: object, attribute: Any, value: str) -> None:
    """A SHA-256."""
    if not value:
        raise ValueError(f"{attribute.name} is missing; `sha256sum FILE` prints it")
    digest(instance, attribute, value)


def part_name(_instance: object, attribute: Any, value: str) -> None:
    """The name of a file, without a folder."""
    if not _PART.fullmatch(value):
        raise ValueError(f"{attribute.name}: {value!r:.80}: expected the name of a file, e.g. tispl.bin")


def word(_instance: object, attribute: Any, value: str) -> None:
    """Validate a text that becomes part of a command on the board."""
    if not _WORD.fullmatch(value):
        raise ValueError(f"{attribute.name}: {value!r:.80}: letters, digits and . / : + - _ only")


def _source(_instance: object, attribute: Any, value: str) -> None:
    """Validate a path or a URL.

    The refused text is not printed: it may hold a password.
    """
    if not value or not value.isprintable():
        raise ValueError(f"{attribute.name}: expected a path or a URL, on one line")
    if "://" in value and not value.startswith(URLS):
        raise ValueError(
            f"{attribute.name}: {value.partition('://')[0]!r:.20} is fetched by nothing: expected a path, or a URL "
            "that begins with http:// or https:// in small letters"
        )


# No software prints two of a group. An empty text is an answer that did not come.
_UNLIKE: Final = (
    ("",),
    (
        "Linux version 6.12.24 (a@b) #1 SMP",
        "U-Boot 2019.04-dirty (May 07 2020 - 10:11:12 +0000)",
        "VERSION=7.3-rc9 wyz",
    ),
    ("20251128", "7"),
)


def telling_regex(instance: object, attribute: Any, value: str) -> None:
    """A regular expression that one software matches and another does not, or nothing."""
    check_regex(instance, attribute, value)
    if value and any(all(re.search(value, text) for text in group) for group in _UNLIKE):
        raise ValueError(
            f"{attribute.name}: {value!r:.80} is found in any text, or in none at all: any software would prove the "
            "release. Name its version, or leave the key out"
        )


def optional_source(instance: object, attribute: Any, value: str) -> None:
    """The same, or nothing."""
    if value:
        _source(instance, attribute, value)


Security: TypeAlias = Literal["none", "gp", "hs-fs", "hs-se"]
SECURITY_STATES: Final[tuple[str, ...]] = get_args(Security)
SUFFIX: Final = ".yaml"
# What a board starts from, the later stage first: the first stage is written last.
BOOT_STAGES: Final = ("u-boot", "tispl", "sysfw", "tiboot3")
FLASHES: Final = frozenset({"ospi", "qspi", "nand", "spi_nor"})  # media that are flash memories on all board types
_MOST_BYTES: Final = 1 << 48  # no medium is larger, and a wrong number becomes no command


@frozen(kw_only=True)
class File:
    """A file of a release.

    Attributes:
        source: path (absolute after `load`; in the file relative to it) or http(s) URL. It may hold a password: show
            `shown`.
        sha256: of the file as it lies there, so of the packed one; 64 hexadecimal digits.
        size: bytes when unpacked; None: nobody has said, `lab.provision.image.unpacked_bytes` counts.
    """

    source: str = field(validator=_source, repr=redact)
    sha256: str = field(default="", validator=given_digest)
    size: int | None = field(default=None, validator=validators.optional(validators.gt(0)))

    @property
    def is_url(self) -> bool:
        """Return whether the file has to be fetched."""
        return self.source.startswith(URLS)

    @property
    def label(self) -> str:
        """The source without its passwords."""
        return redact(self.source)

    @property
    def filename(self) -> str:
        """The last part of its source, without a query."""
        return self.source.partition("?")[0].rpartition("/")[2] if self.is_url else Path(self.source).name


@frozen(kw_only=True)
class Image(File):
    """An image of a whole medium.

    Attributes:
        bmap: path or URL of its block map (bmaptool's); empty: every byte is written.
        bmap_sha256: its digest.
    """

    bmap: str = field(default="", validator=optional_source, repr=redact)
    bmap_sha256: str = field(default="", validator=digest)

    def __attrs_post_init__(self) -> None:
        if self.bmap.startswith(URLS) and not self.bmap_sha256:
            raise ValueError(
                "bmap_sha256 is missing; a block map that is fetched is compared with it: `sha256sum FILE` prints it"
            )


@frozen(kw_only=True)
class PartPlace:
    """Place of a part on its medium: `partition`, `offset` or `mtd`.

    Attributes:
        partition: number, from 1, of the partition table that is on the medium: all of that partition. From U-Boot
            only.
        offset: bytes from the start of the medium, or of `hardware`.
        hardware: eMMC hardware partition, "user", "boot0" or "boot1"; only with `offset`.
        mtd: name of the MTD partition, e.g. "ospi.tiboot3".
        volume: UBI volume in it; empty: no UBI.
        room: bytes that are free for it there; None: as far as the next part, or the medium's end.
    """

    partition: int | None = field(default=None, validator=validators.optional(validators.in_(range(1, 129))))
    offset: int | None = field(default=None, validator=validators.optional(validators.in_(range(_MOST_BYTES))))
    hardware: str = field(default="user", validator=validators.in_(("user", "boot0", "boot1")))
    mtd: str = field(default="", validator=word)
    volume: str = field(default="", validator=word)
    room: int | None = field(default=None, validator=validators.optional(validators.gt(0)))

    def __attrs_post_init__(self) -> None:
        place_keys = [name for name in ("partition", "offset", "mtd") if getattr(self, name) not in {None, ""}]
        if len(place_keys) != 1:
            raise ValueError(f"expected one of partition, offset and mtd; got {' and '.join(place_keys) or 'none'}")
        if self.volume and not self.mtd:
            raise ValueError("volume goes with mtd only")
        if self.hardware != "user" and self.offset is None:
            raise ValueError("hardware goes with offset only, e.g. {hardware: boot0, offset: 0}")

    @property
    def label(self) -> str:
        """As a person reads it, e.g. "boot0 at 0x80000"."""
        if self.partition is not None:
            return f"partition {self.partition}"
        if self.mtd:
            return f"MTD {self.mtd}" + (f", volume {self.volume}" if self.volume else "")
        return ("" if self.hardware == "user" else f"{self.hardware} ") + f"at {self.offset:#x}"


@frozen(kw_only=True)
class Part(File):
    """A file and its place on a medium.

    Attributes:
        name: as boot chains call it, e.g. "tiboot3.bin".
        packed: it is written as it lies there, e.g. an Image.gz that U-Boot unpacks.
    """

    name: str = field(validator=part_name)
    to: PartPlace
    packed: bool = False

    @property
    def is_boot(self) -> bool:
        """Return whether the board starts from it."""
        return self.to.hardware != "user" or self.name.lower().startswith(BOOT_STAGES)


@frozen(kw_only=True)
class RecoveryStage(File):
    """A file for a board without software, or for its memory."""

    name: str = field(validator=part_name)


@frozen
class ExtCsd:
    """Boot settings of an eMMC; empty fields leave them unchanged.

    The values are the arguments of U-Boot's commands after the device.

    Attributes:
        partconf: of `mmc partconf`: boot_ack, boot_partition, partition_access, e.g. [1, 1, 1].
        bootbus: of `mmc bootbus`: boot_bus_width, reset_boot_bus_width, boot_mode, e.g. [2, 0, 0].
    """

    partconf: list[int] = Factory(list)
    bootbus: list[int] = Factory(list)

    def __attrs_post_init__(self) -> None:
        for name, most in (("partconf", 7), ("bootbus", 3)):
            values = getattr(self, name)
            if values and (len(values) != 3 or not all(0 <= value <= most for value in values)):
                raise ValueError(f"{name}: {values}: expected three numbers from 0 to {most}")

    @property
    def given(self) -> bool:
        """Return whether there is any setting."""
        return bool(self.partconf or self.bootbus)


@frozen
class Content:
    """Content of a medium: an image, parts, or both in this order."""

    image: Image | None = None
    parts: list[Part] = Factory(list)
    extcsd: ExtCsd = ExtCsd()

    def __attrs_post_init__(self) -> None:
        if self.image is None and not self.parts:
            raise ValueError("expected an image, or parts")
        if self.image is not None and (
            part := next((part for part in self.parts if part.to.partition is not None), None)
        ):
            raise ValueError(
                f"{part.name}: an image brings a partition table of its own; give the part an offset, not a partition"
            )
        for number, part in enumerate(self.parts):
            if any(part.name == other.name for other in self.parts[:number]):
                raise ValueError(f"two parts are called {part.name}")
            if any(part.to == other.to for other in self.parts[:number]):
                raise ValueError(f"{part.name}: another part goes to the same place ({part.to.label})")
            mtd = [other.to for other in self.parts if part.to.mtd and other.to.mtd == part.to.mtd]
            if any(place.volume for place in mtd) and not all(place.volume for place in mtd):
                raise ValueError(
                    f"{part.name}: MTD {part.to.mtd} is written as a whole by one part, and has UBI volumes by another"
                )

    @property
    def files(self) -> list[File]:
        """All of them, as they are in the release file."""
        return [*([self.image] if self.image else []), *self.parts]


@frozen
class Recovery:
    """Files for a board without software, in the order of sending.

    Attributes:
        soc: Snagboot's name, e.g. "am625".
        usb: over USB DFU.
        uart: to the ROM by XMODEM, and to the stages after it by YMODEM.
        ram: a Linux that runs in memory: kernel, device tree, initramfs.
    """

    soc: str = field(default="", validator=word)
    usb: list[RecoveryStage] = Factory(list)
    uart: list[RecoveryStage] = Factory(list)
    ram: list[RecoveryStage] = Factory(list)

    @property
    def files(self) -> list[File]:
        """All of them."""
        return [*self.usb, *self.uart, *self.ram]


@frozen
class Expected:
    """Expected identity of the booted board, as regular expressions.

    They are searched for; an empty one is not compared.

    Attributes:
        uboot, kernel: in U-Boot's and the kernel's version lines.
        build_id: BUILD_ID of /etc/os-release.
        buildinfo: /etc/buildinfo.
    """

    uboot: str = field(default="", validator=telling_regex)
    kernel: str = field(default="", validator=telling_regex)
    build_id: str = field(default="", validator=telling_regex)
    buildinfo: str = field(default="", validator=telling_regex)

    def __attrs_post_init__(self) -> None:
        if not (self.uboot or self.kernel or self.build_id or self.buildinfo):
            raise ValueError(
                "expected one of uboot, kernel, build_id and buildinfo: else no boot tells the release from another"
            )

    @classmethod
    def of_document(cls, document: Mapping[str, str]) -> Self | None:
        """The identity in a write's record; None: nothing can be compared."""
        try:
            return cls(**document)
        except (TypeError, ValueError):
            return None

    @property
    def document(self) -> dict[str, str]:
        """Compared patterns by name, for the record of a write."""
        return {name: pattern for name, pattern in asdict(self).items() if pattern}

    @property
    def questions(self) -> dict[str, str]:
        """Commands to ask at the prompt for the comparison, by name."""
        return {name: command for name, command in _QUESTIONS.items() if name in self.document}

    def differences(self, answers: Mapping[str, str]) -> list[str]:
        """Differences between a booted board and the release, one phrase each.

        A missing answer counts.
        """
        return [
            f"{_TITLES[name]} is {answers.get(name, '').strip()[:120]!r}, expected {pattern!r}"
            if answers.get(name)
            else f"{_TITLES[name]} was not seen, expected {pattern!r}"
            for name, pattern in self.document.items()
            if not re.search(pattern, answers.get(name, ""))
        ]


def read_answer(name: str, output: str) -> str:
    """Extract the value of an answer: BUILD_ID of os-release(5), else the text."""
    if name != "build_id":
        return output
    for line in output.splitlines():
        key, _, value = line.strip().partition("=")
        if key == "BUILD_ID":
            try:
                return " ".join(shlex.split(value))
            except ValueError:  # a quote that does not end
                return value
    return ""


@frozen
class Release:
    """A release file.

    Attributes:
        name: the file's, without .yaml; it is the label of the runs.
        boards: board types.
        security: the devices' state.
    """

    name: str
    boards: list[str]
    media: dict[str, Content]
    identity: Expected
    security: str = field(default="none", validator=validators.in_(SECURITY_STATES))
    recovery: Recovery = Recovery()
    path: Path | None = None

    def __attrs_post_init__(self) -> None:
        check_name(self.name)
        if not self.boards:
            raise ValueError("boards: expected at least one board type; `lab boards` names them")
        if not self.media:
            raise ValueError("media: expected at least one medium, e.g. sd")

    @property
    def files(self) -> list[File]:
        """All files, those of the media first."""
        return [*(file for content in self.media.values() for file in content.files), *self.recovery.files]
