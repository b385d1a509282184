"""Drafts of release files from build outputs in Yocto's deploy/images/MACHINE.

The board type gives the parts' places on its media; else, on eMMC and NOR flash, U-Boot's documents of TI's K3 boards
do (doc/board/ti), e.g. am62x_sk.rst; that of sysfw.itb is of am65x_evm.rst, the only boards that have it apart.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from lab.boards import Medium
from lab.errors import ConfigurationError

# A build has one for each state of the devices, and for each revision of the silicon. meta-ti's `sysfw.itb` of the
# AM65x is that for SR2.0, and `sysfw-am65x-gp-evm.itb` beside it that for SR1.0; so the plain name is the machine's.


FIRST_STAGE: Final = "tiboot3.bin"
FIRMWARE: Final = "sysfw.itb"
_STATES: Final[Mapping[str, str]] = {  # of U-Boot's and Yocto's names; HS alone is HS-SE
    "gp": r"(?<![a-z])gp(?![a-z])",
    "hs-fs": r"hs-?fs",
    "hs-se": r"hs(-?se)?(?!-?fs)(?![a-z])",
}


def first_stage(folder: Path, security: str) -> Path | None:
    """Find the tiboot3*.bin for devices of a security state.

    A file without a state in its name counts only if no file has one. None: there is no file.

    Raises:
        ConfigurationError: several files fit.
    """
    there = _there(folder, "tiboot3*.bin")
    stated = [path for path in there if states(path)]
    fits = [path for path in stated if security == "none" or security in states(path)]
    return _only(folder, FIRST_STAGE, fits if stated else there)


def firmware(folder: Path, security: str) -> Path | None:
    """Find the sysfw*.itb for devices of a security state.

    For secure states a file without a state in its name counts only if no other fits. None: no file fits.

    Raises:
        ConfigurationError: several files fit.
    """
    there = _there(folder, "sysfw*.itb")
    stated = [path for path in there if security in states(path)]
    plain = [path for path in there if not states(path)]
    return _only(folder, FIRMWARE, stated if stated and security != "gp" else [*stated, *plain])


def _there(folder: Path, pattern: str) -> list[Path]:
    """The files, links followed, each once."""
    return sorted({path.resolve() for path in folder.glob(pattern) if path.is_file()})


def states(path: Path) -> list[str]:
    """Security states in the name of a first stage; empty: none."""
    return [state for state, pattern in _STATES.items() if re.search(pattern, path.name)]


def _only(folder: Path, name: str, fits: list[Path]) -> Path | None:
    """Choose the file with the plain name, or its link's target."""
    plain = (folder / name).resolve() if (folder / name).is_file() else None
    if plain in fits:
        return plain
    if len(fits) > 1:
        raise ConfigurationError(
            f"{folder}: several files may be {name} ({', '.join(path.name for path in fits)}), e.g. for other "
            f"machines or revisions of the silicon. Make {name} a link to the "
            "one that is meant, or take the others away"
        )
    return fits[0] if fits else None


# Part -> offset in the eMMC's boot0, offset in the NOR flash. Sectors of 512 bytes: 0, 0x400, 0x1400, 0x3600.
_K3: Final[Mapping[str, tuple[int, int]]] = {
    "tiboot3.bin": (0x0, 0x0),
    "tispl.bin": (0x80000, 0x80000),
    "u-boot.img": (0x280000, 0x280000),
    "sysfw.itb": (0x6C0000, 0x6C0000),  # sector 0x3600, and OSPI at the same offset: am65x_evm.rst
}
_FLASHES: Final = ("ospi", "qspi")
_FIRMWARE: Final = FIRMWARE
_EXTCSD: Final = {"partconf": [1, 1, 1], "bootbus": [2, 0, 0]}
_EXTCSD_FIRMWARE: Final = {"partconf": [1, 1, 1], "bootbus": [1, 0, 0]}  # am65x_evm.rst
_IMAGES: Final = ("*.wic", "*.wic.xz", "*.wic.zst", "*.wic.gz")
_UBOOTS: Final = ("u-boot.img", "u-boot.itb", "u-boot.bin")
_IN_MEMORY: Final = ("ram-linux", "initramfs", "initrd")  # the first is that of `lab release ram-linux`
_RECOVERY: Final = "recovery"  # the folder with the stages that were built for USB DFU
_BANNERS: Final = {  # as they stand in the files
    "uboot": re.compile(rb"U-Boot 20\d\d\.\d\d[^\s\0]* \([A-Z][a-z]{2} \d\d \d{4} - [\d:]{8} [+-]\d{4}\)"),
    "kernel": re.compile(rb"Linux version \d+\.\d+[^\s\0%]* "),
}
_OVERLAP: Final = 512
_BLOCK: Final = 1 << 20


@frozen
class Draft:
    """A draft.

    document: as the file has it. remarks: points for a person to check, one sentence each.
    """

    document: dict[str, Any]
    remarks: list[str]


def draft(
    folder: Path,
    board: str,
    media: Mapping[str, Medium],
    security: str,
    base: Path,
    images: Mapping[str, str] | None = None,
    kernel: str = "",
    build_id: str = "",
) -> Draft:
    """Look through a folder and say what of it goes where.

    Args:
        board: board type.
        media: that it has.
        security: of its devices.
        base: the folder of the release file, to which the paths are relative.
        images: medium -> the name of its image, where there are several; under "" that of all others.
        kernel: pattern of the kernel's line, where no file says it.
        build_id: pattern of BUILD_ID of /etc/os-release.

    Raises:
        ConfigurationError: the folder has nothing for any medium, several images or first stages, or nothing says
            which kernel it is.
    """
    if not folder.is_dir():
        raise ConfigurationError(
            f"{folder}: there is no such folder; give that of the build outputs, e.g. deploy/images/MACHINE"
        )
    maker, chosen = _Maker(folder, base), images or {}
    if any(medium.image or medium.parts for medium in media.values()):
        return _as_laid_out(maker, board, media, security, chosen, _stated_identity(kernel, build_id))
    whole, boot = _image(maker, chosen.get("", "")), _boot_parts(maker, security)
    contents: dict[str, Any] = {}
    for medium in media:
        own = _image(maker, chosen[medium]) if medium in chosen else whole
        content = _content(maker, medium, own, boot)
        if content:
            contents[medium] = content
    if not contents:
        raise ConfigurationError(
            f"{folder}: it has no *.wic image and no tiboot3.bin, so there is nothing to put on {', '.join(media)}"
            + "".join(f"; {dead}" for dead in _dead_links(folder))
        )
    identity = _identity(folder, boot.get("u-boot.img"), _stated_identity(kernel, build_id))
    remarks = ["offsets of parts are those of TI's K3 boards: compare them with your SDK's guide"] if boot else []
    remarks += _dead_links(folder)
    if security == "none" and (states_ := states(boot["tiboot3.bin"]) if "tiboot3.bin" in boot else []):
        remarks.append(
            f"{boot['tiboot3.bin'].name} is for {' or '.join(states_)} devices, and no other starts it: make it anew "
            f"with --security {states_[0]}, or with that of your devices"
        )
    if "tiboot3.bin" not in boot:
        remarks.append(f"no tiboot3*.bin for {security} devices is there: only what an image holds is written")
    document: dict[str, Any] = {"boards": [board], "security": security, "media": contents}
    recovery = _recovery(maker, boot)
    if recovery:
        document["recovery"] = recovery
    if "usb" not in recovery:
        how = "comes up over UART only" if "uart" in recovery else "cannot be started"
        remarks.append(f"no folder {_RECOVERY}/ with {', '.join(boot) or 'tiboot3.bin'} for USB: a blank board {how}")
    else:
        remarks.append("recovery has no `soc`: add Snagboot's name of it, which `snagrecover --list-socs` prints")
    return Draft({**document, "identity": identity}, remarks)


def _as_laid_out(
    maker: _Maker,
    board: str,
    media: Mapping[str, Medium],
    security: str,
    chosen: Mapping[str, str],
    expected: dict[str, str],
) -> Draft:
    """Draft a release by the board type's layout of its media."""
    contents: dict[str, Any] = {}
    for name, medium in media.items():
        image = _image(maker, chosen.get(name, chosen.get("", ""))) if medium.image else {}
        parts = [
            _part(maker, part, maker.folder / part, {"offset": offset})
            for part, offset in medium.parts.items()
            if (maker.folder / part).is_file()
        ]
        content = {**({"image": image} if image else {}), **({"parts": parts} if parts else {})}
        if content:
            contents[name] = content
    missing = [
        f"no {part}, which {board} has on {name}"
        for name, medium in media.items()
        for part in medium.parts
        if not (maker.folder / part).is_file()
    ]
    if not contents:
        expected_parts = sorted({part for medium in media.values() for part in medium.parts})
        raise ConfigurationError(
            f"{maker.folder}: nothing of what {board} boots from is there: {', '.join(['*.wic', *expected_parts])}"
        )
    uboot = next((maker.folder / part for medium in media.values() for part in medium.parts if part in _UBOOTS), None)
    identity = _identity(maker.folder, uboot if uboot and uboot.is_file() else None, expected)
    return Draft({"boards": [board], "security": security, "media": contents, "identity": identity}, missing)


def _stated_identity(kernel: str, build_id: str) -> dict[str, str]:
    return {name: pattern for name, pattern in (("kernel", kernel), ("build_id", build_id)) if pattern}


@frozen
class _Maker:
    """Makes the entries of files."""

    folder: Path
    base: Path

    def entry(self, path: Path) -> dict[str, Any]:
        """Source and digest."""
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            if not stream.tell():
                raise ConfigurationError(
                    f"{path}: it is empty, so the build or its copy is not whole; no draft was written"
                )
        return {"source": os.path.relpath(path.resolve(), self.base.resolve()), "sha256": digest}


def _image(maker: _Maker, wanted: str) -> dict[str, Any]:
    """Find the image of a whole medium.

    Yocto has each under its own name, and a link to it without the date.
    """
    there = {
        path.resolve(): path for pattern in _IMAGES for path in sorted(maker.folder.glob(pattern)) if path.is_file()
    }
    names = {path.name: path for path in there.values()}
    if wanted:
        if not (maker.folder / wanted).is_file():
            raise ConfigurationError(f"{maker.folder}: no image {wanted!r}; there are: {', '.join(names) or 'none'}")
        path = maker.folder / wanted
    elif len(names) > 1:
        raise ConfigurationError(
            f"{maker.folder}: several images ({', '.join(names)}): say which with --image NAME, or with --image "
            "MEDIUM=NAME for each medium"
        )
    elif not names:
        return {}
    else:
        path = next(iter(names.values()))
    image = maker.entry(path)
    bare = path.name[: path.name.index(".wic") + len(".wic")]
    blocks = path.with_name(f"{bare}.bmap")
    if blocks.is_file():
        blocks_entry = maker.entry(blocks)
        image |= {"bmap": blocks_entry["source"], "bmap_sha256": blocks_entry["sha256"]}
    return image


def _dead_links(folder: Path) -> list[str]:
    """Links of a folder to missing files, one phrase each."""
    dead = [
        path for path in sorted(folder.iterdir()) if path.is_symlink() and not path.is_file() and not path.is_dir()
    ]
    return [f"{path.name} is a link to {path.readlink()}, which is not there" for path in dead]


def _boot_parts(maker: _Maker, security: str) -> dict[str, Path]:
    """Map each part to its file, in boot order."""
    parts: dict[str, Path] = {}
    first = first_stage(maker.folder, security)
    if first is None:
        return {}
    parts["tiboot3.bin"] = first
    firmware_ = firmware(maker.folder, security)
    if firmware_ is not None:
        parts[_FIRMWARE] = firmware_
    for name in ("tispl.bin", "u-boot.img"):
        unsigned = maker.folder / f"{name}_unsigned"
        path = unsigned if security == "gp" and unsigned.is_file() else maker.folder / name
        if path.is_file():
            parts[name] = path
    return parts


def _content(maker: _Maker, medium: str, whole: Mapping[str, Any], boot: Mapping[str, Path]) -> dict[str, Any]:
    if medium == "sd":
        return {"image": dict(whole)} if whole else {}
    k3_parts = {name: path for name, path in boot.items() if name in _K3}
    if medium == "emmc" and k3_parts:
        parts = [
            _part(maker, name, path, {"hardware": "boot0", "offset": _K3[name][0]}) for name, path in k3_parts.items()
        ]
        extcsd = _EXTCSD_FIRMWARE if _FIRMWARE in k3_parts else _EXTCSD
        return {**({"image": dict(whole)} if whole else {}), "extcsd": dict(extcsd), "parts": parts}
    if medium in _FLASHES and k3_parts:
        return {"parts": [_part(maker, name, path, {"offset": _K3[name][1]}) for name, path in k3_parts.items()]}
    return {}


def _part(maker: _Maker, name: str, path: Path, place: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, **maker.entry(path), "to": dict(place)}


def _recovery(maker: _Maker, boot: Mapping[str, Path]) -> dict[str, Any]:
    recovery: dict[str, Any] = {}
    folder = maker.folder / _RECOVERY
    usb = [folder / name for name in boot if (folder / name).is_file()]
    if usb and len(usb) == len(boot):
        recovery["usb"] = [{"name": path.name, **maker.entry(path)} for path in usb]
    # With firmware of its own the ROM listens at another UART than the later stages: over the console alone it does
    # not come up.
    if {"tiboot3.bin", "tispl.bin", "u-boot.img"} <= boot.keys() and _FIRMWARE not in boot:
        recovery["uart"] = [{"name": name, **maker.entry(path)} for name, path in boot.items()]
    ram = list(_ram(maker.folder))
    if ram:
        recovery["ram"] = [{"name": name, **maker.entry(path)} for name, path in ram]
    return recovery


def _ram(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield kernel, device tree and initramfs of a Linux in memory.

    Nothing if one of them is missing.
    """
    kernel = folder / "Image"
    trees = [path for path in sorted(folder.glob("*.dtb")) if "-overlay" not in path.name]
    memory = [path for name in _IN_MEMORY for path in sorted(folder.glob(f"*{name}*.cpio*"))]
    if kernel.is_file() and len(trees) == 1 and memory:
        yield from (("Image", kernel), (trees[0].name, trees[0]), (memory[0].name, memory[0]))


def _identity(folder: Path, uboot: Path | None, expected: Mapping[str, str]) -> dict[str, str]:
    image = folder / "Image"
    there = {
        "uboot": _banner(uboot, "uboot") if uboot else "",
        "kernel": _banner(image, "kernel") if image.is_file() else "",
        **expected,
    }
    identity = {name: pattern for name, pattern in there.items() if pattern}
    if not identity:
        raise ConfigurationError(
            f"{folder}: no Image and no u-boot.img there says which versions they "
            "are: say what the kernel's line looks like, "
            r"e.g. --kernel 'Linux version 6\.12\.'"
        )
    return identity


def _banner(path: Path, kind: str) -> str:
    """The version line that a file holds, as a pattern; empty: none."""
    before = b""
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            if match := _BANNERS[kind].search(before + block):
                return re.sub(r"\\([ -])", r"\1", re.escape(match[0].decode("ascii", "replace")))
            before = block[-_OVERLAP:]
    return ""
