"""Recovery over USB by Snagboot's programs `snagrecover` and `snagflash`.

They are called, never imported.

Snagboot is GPL-2.0-only, and its pyserial would replace labgrid's, so it has an environment of its own: `pipx install
snagboot`. Its options: docs/snagrecover.md and docs/snagflash.md of its version 3. Its output decides little, since it
is silent by default: U-Boot on the board's console decides.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn, Protocol

from attrs import frozen

from lab.errors import ConfigurationError, LabStableError
from lab.provision.errors import RecoveryFailedError, WriteStalledError
from lab.redaction import redact

RECOVER_S: Final = 120.0  # Snagboot waits some seconds for each of the devices that come and go
# Its names for the images of TI's K3 (docs/snagrecover.md) by the beginning of the files' names.
FIRMWARE: Final[Mapping[str, str]] = {"tiboot3": "tiboot3", "tispl": "tispl", "u-boot": "u-boot", "sysfw": "sysfw"}
_PATH: Final = re.compile(r"\d+-\d+(?:\.\d+)*")
_PORT: Final = re.compile(rf"[0-9a-f]{{4}}:[0-9a-f]{{4}}|{_PATH.pattern}", re.IGNORECASE)
_NO_DEVICE: Final = re.compile(r"no (?:usb )?device|not found|timed? ?out.*usb|USB device", re.IGNORECASE)
_NO_RIGHT: Final = re.compile(r"access denied|insufficient permissions|access rights issue|Errno 13", re.IGNORECASE)
_WRONG: Final = re.compile(r"error|failed|Traceback|FAIL|unsupported", re.IGNORECASE)
_SHOWN_CHARACTERS: Final = 160


@frozen
class ProgramEnd:
    """End of a program.

    Attributes:
        lines: its output.
        status: its exit status; None: it took too long and was ended.
    """

    lines: tuple[str, ...]
    status: int | None


class RunProgram(Protocol):
    """Runs a program to its end."""

    def __call__(self, arguments: Sequence[str], timeout_s: float) -> ProgramEnd:
        """Run it; it is ended after `timeout_s` seconds."""


def find_program(program: str = "snagrecover") -> str:
    """Path of the program.

    Raises:
        ConfigurationError: it is not installed.
    """
    path = shutil.which(program)
    if path is None:
        raise ConfigurationError(
            f"{program} is not installed: `pipx install snagboot` gives it an environment of its own (never install "
            "it beside boardlab: it replaces labgrid's pyserial)"
        )
    return path


def recover_command(program: str, soc: str, images: Mapping[str, Path], port: str = "") -> tuple[str, ...]:
    """The command that brings a board in USB boot mode to U-Boot.

    Args:
        soc: as Snagboot calls it, e.g. "am625".
        images: name of a stage, e.g. "tispl.bin" -> its file.
        port: the board's USB port, e.g. "3-1.2", so that no other board is taken; empty: the only one there is.

    Raises:
        ConfigurationError: a name or the port is none that Snagboot knows.
    """
    if not soc:
        raise ConfigurationError("the release has no `recovery: soc:`; `snagrecover --list-socs` names them")
    command = [program, "-s", soc, "--loglevel", "info"]
    for name, path in images.items():
        firmware = next((title for begins, title in FIRMWARE.items() if name.startswith(begins)), "")
        if not firmware:
            raise ConfigurationError(f"recovery: usb: {name}: Snagboot knows {', '.join(FIRMWARE)} for these boards")
        command += ["-F", str({firmware: {"path": str(path)}})]
    if port and not _PATH.fullmatch(port):  # Snagboot 3.0.1 says that it takes vendor:product here, too, and does not
        raise ConfigurationError(f"USB port {port!r}: expected e.g. 3-1.2 (bus-ports; `lsusb -t`)")
    return (*command, *(("--usb-path", port) if port else ()))


def download_command(program: str, port: str, path: Path) -> tuple[str, ...]:
    """Command that loads a file into U-Boot's memory over fastboot.

    Nothing is written to a medium.

    Raises:
        ConfigurationError: no such port can be.
    """
    if not _PORT.fullmatch(port):
        raise ConfigurationError(f"USB port {port!r}: expected e.g. 3-1.2 (bus-ports) or 0451:6165 (vendor:product)")
    return (program, "-P", "fastboot", "-p", port, "-f", f"download:{path}")


def judge_recovery(end: ProgramEnd) -> None:
    """Make sure that `snagrecover` succeeded; the console shows U-Boot.

    Raises:
        RecoveryFailedError, WriteStalledError, LabStableError: it failed.
    """
    if end.status != 0 or _complains(end):
        _raise(end, "snagrecover")


def judge_download(end: ProgramEnd) -> None:
    """The same of `snagflash`; what arrived its digest says, which U-Boot computes.

    Raises:
        RecoveryFailedError, WriteStalledError, LabStableError: it did not.
    """
    if end.status != 0 or _complains(end):
        _raise(end, "snagflash")


def run_here(arguments: Sequence[str], timeout_s: float) -> ProgramEnd:
    """Run a program on this host."""
    with subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
            return ProgramEnd(tuple(output.splitlines()), None)
    return ProgramEnd(tuple(output.splitlines()), process.returncode)


def _complains(end: ProgramEnd) -> bool:
    return any(_WRONG.search(line) for line in end.lines)


def _raise(end: ProgramEnd, program: str) -> NoReturn:
    output = redact(" / ".join(line.strip() for line in end.lines if line.strip())[-_SHOWN_CHARACTERS:])
    answer = f"it said {output!r}" if output else "it said nothing"
    if end.status is None:
        raise WriteStalledError(
            f"{program} did not end in time, and was ended: {answer}. The next try switches the board off and on"
        )
    if _NO_RIGHT.search("\n".join(end.lines)):
        raise LabStableError(
            f"{program} may not use the USB device: {answer}. `snagrecover --udev` prints the rules for udev",
            failure="usb_refused",
        )
    if _NO_DEVICE.search("\n".join(end.lines)):
        raise RecoveryFailedError(
            f"{program} saw no board on USB: {answer}. Is the cable in the board's USB-C port, "
            "and do its switches select USB boot (DFU)?"
        )
    hint = {"snagrecover": "Are the files the recovery set for this board's security state?"}.get(
        program, "Is the cable in the board's USB device port, and is `usb_port` of the env that of its U-Boot?"
    )
    raise RecoveryFailedError(f"{program} failed with status {end.status}: {answer}. {hint}")


# udev's path_id: the controller, "usb", the number of its root hub, the ports from there to the device, its interface.
_ID_PATH: Final = re.compile(r"(?P<root>\S+-usb-\d+):(?P<ports>\d+(?:\.\d+)*)(?:[:-]\S*)?")


def hub_of(id_path: str) -> str:
    """Hub of a USB device as its ID_PATH; empty: no USB device."""
    match = _ID_PATH.fullmatch(id_path)
    if match is None:
        return ""
    above = match["ports"].rpartition(".")[0]
    return f"{match['root']}:{above}" if above else match["root"]


def hub_of_disk(identity: str) -> str:
    """USB hub of a disk, by its udev words; empty: none."""
    return next(filter(None, map(hub_of, identity.split())), "")


def turn_at(hub: str) -> str:
    """Name of the lock (`lab.host.locks`) for writes at a hub."""
    return f"hub {hub}"
