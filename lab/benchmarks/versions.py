"""Versions, board revision and image sizes in the lines of a boot.

Forms: U-Boot's arch/arm/mach-k3/common.c, TF-A's bl31_main.c, OP-TEE's core/arch/arm/kernel/boot.c, Linux'
drivers/firmware/ti_sci.c, drivers/tee/optee and drivers/soc/ti/k3-socinfo.c, and public logs of AM62x boards.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from attrs import define, field

# Names in an attempt's `software`: version lines that a run must not change, which the board confirms; those that only
# the console tells; the firmware and what it loads; the board.
VERSION_LINES: Final = ("uboot", "kernel")
CONSOLE_LINES: Final = ("spl", "sysfw")
FIRMWARE: Final = ("spl", "sysfw", "dm_firmware", "tf_a", "optee", "device_tree", "image_bytes")
HARDWARE: Final = ("silicon", "security", "board_revision", "rom")

_SECURITY: Final = "GP|HS-FS|HS-SE|HS|TEST|EMU|BAD"
_ONCE: Final = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("uboot", r"(?P<text>U-Boot 20\d\d\.\d\d.*)"),
        ("kernel", r"(?P<text>Linux version .*)"),
        ("spl", r"U-Boot SPL (?P<text>20\d\d\.\d\d\S*)"),
        ("dm_firmware", r"DM ABI: (?P<text>\d+\.\d+ \(firmware ver 0x[0-9a-f]+ '[^']*'.*\))"),
        ("tf_a", r"BL31: (?P<text>v\d\S*)"),
        ("optee", r"OP-TEE version: (?P<text>\d\S*)"),
        ("optee", r"optee: (?:OP-TEE: )?revision (?P<text>\d\S*(?: \([0-9a-f]+\))?)"),
        ("silicon", r"^SoC: +(?P<text>\S.*?) (?:" + _SECURITY + r")\s*$"),
        ("silicon", r"^CPU *: (?P<text>\S+?)-(?:" + _SECURITY + r") (?P<more>rev \S+)"),
        ("silicon", r"Family:(?P<text>\S+) rev:(?P<more>\S+) JTAGID"),
        ("security", r"^SoC: +\S.*? (?P<text>" + _SECURITY + r")\s*$"),
        ("security", r"^CPU *: \S+?-(?P<text>" + _SECURITY + r") rev"),
        ("board_revision", r"^Board: (?P<text>\S.*)"),
        ("device_tree", r"Machine model: (?P<text>\S.*)"),
        ("rom", r"^(?P<text>0[0-9a-f]000000011a0000[0-9a-f]{16,})"),
    )
)
_SYSFW: Final = re.compile(r"(?:SYSFW |ti-sci .*: )ABI: (\d+\.\d+ \(firmware rev 0x[0-9a-f]+ '([^' ]*)[^']*'\)?)")
_SBL_SYSFW: Final = re.compile(r"SYSFW Firmware Version (([\w.-]+)(?: \(.*\))?)")
_ON_GP: Final = "image signing certificate on GP device"
_READ: Final = re.compile(r"(\d+) bytes read in \d+ ms")
_FIT: Final = re.compile(r"## Loading (\w+) from FIT")
_CONFIGURATION: Final = re.compile(r"Using '(?:conf-)?([^']+)' configuration")
_HASH: Final = re.compile(r"Hash value: +([0-9a-f]{12})[0-9a-f]*")
_DEVICE_TREE: Final = "fdt"
_KERNELS: Final = ("Starting kernel ...", "Booting Linux on physical CPU")


@define
class BootVersions:
    """Reads the versions of a boot, line by line.

    Attributes:
        found: name -> text; "uboot" and "kernel" are whole lines. `image_bytes`: sizes of the files that U-Boot read,
            in its order. A system firmware that names itself differently later has both texts. A damaged line is left
            out.
    """

    found: dict[str, str] = field(factory=dict)
    _sizes: list[str] = field(factory=list, init=False)
    _section: str = field(default="", init=False)  # of the FIT image that is unpacked
    _sysfw: set[str] = field(factory=set, init=False)

    def whole_line(self, line: str) -> None:
        """Take a console line."""
        for name, text in _versions_of(line):
            if text.isascii() and text.isprintable():  # else the line has damaged it
                self.found.setdefault(name, text)
        if _ON_GP in line:
            self.found.setdefault("security", "GP")
        match = _SYSFW.search(line) or _SBL_SYSFW.search(line)
        if match and match[0].isascii() and match[0].isprintable() and match[2] not in self._sysfw:
            self._sysfw.add(match[2])
            before = self.found.get("sysfw")
            self.found["sysfw"] = f"{before}, then {match[1]}" if before else match[1]
        if any(text in line for text in _KERNELS):
            self._section = "done"
        if self._section == "done":
            return
        if match := _READ.search(line):
            self._sizes.append(match[1])
            self.found["image_bytes"] = ", ".join(self._sizes)
        elif match := _FIT.search(line):
            self._section = match[1]
        elif self._section == _DEVICE_TREE and (match := _CONFIGURATION.search(line)):
            self.found["device_tree"] = match[1]
        elif self._section == _DEVICE_TREE and (match := _HASH.search(line)) and "device_tree" in self.found:
            self.found["device_tree"] = f"{self.found['device_tree'].partition(' ')[0]} {match[1]}"


def _versions_of(line: str) -> Iterator[tuple[str, str]]:
    for name, pattern in _ONCE:
        if match := pattern.search(line):
            yield name, " ".join(part for part in match.groupdict().values() if part).strip()
