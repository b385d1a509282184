"""Writer of media from U-Boot: network, USB, or console."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import attr
from attrs import frozen
from labgrid.driver import Driver
from labgrid.factory import target_factory

from lab.drivers.boardservers import BoardServer
from lab.drivers.consoleport import ConsoleLine
from lab.drivers.prompt import uboot_prompt
from lab.errors import ConfigurationError
from lab.provision import snagboot
from lab.provision.errors import RecoveryFailedError
from lab.provision.writer import ProvisionProtocol, Writer
from lab.provision.writers import emmc_boot_partitions, ubootmedia
from lab.provision.writers.command import SHORT_S, CommandPrompt, quote
from lab.provision.writers.file_server import LOOPBACK, TFTP_PORT
from lab.provision.writers.uboot import Loader, UBootWriter
from lab.provision.writers.ubootanswers import has_command
from lab.provision.ymodem import BITS_PER_BYTE, BLOCK_BYTES, Sending, YmodemLine

_TFTP: Final = "tftp"
_CONSOLE: Final = "console"
_USB: Final = "usb"
_ASKS_S: Final = 10.0
_ENDS_S: Final = 10.0
_OVERHEAD: Final = (BLOCK_BYTES + 6) / BLOCK_BYTES
_TOTAL: Final = re.compile(rb"## Total Size\s+= 0x[0-9a-fA-F]+ = (\d+) Bytes")
_USUAL_RATE: Final = 10e6  # Snagfactory's figures on SK-AM62: an eMMC of 64 MB in 18 s, most of it its write
_LEAST_S: Final = 60.0  # snagflash waits some seconds for a device that has just come
_SLOWEST: Final = 500e3
_CTRL_C: Final = b"\x03"


@target_factory.reg_driver
@attr.s(eq=False)
class UBootWriterDriver(Driver, ProvisionProtocol):
    """UBootWriterDriver - writes media from U-Boot's prompt

    Data comes over TFTP, from a server of this driver or the lab's; without a network over USB or the console.

    An eMMC's boot partition that the board boots from is kept (`lab.provision.writers.emmc_boot_partitions`).

    Args:
        media (dict): medium -> its name in U-Boot: "mmc 0", "nvme 0", "sf", "mtd NAME", "cfi 0x4000000"
        listen (str): this host's address where the board can reach it; "auto": as its routes say
        server (str): the same as the board sees it; empty: `listen`
        port (int): of the TFTP server; 0: a free one, which takes CONFIG_TFTP_PORT in U-Boot
        folder (str): the folder of a running TFTP server at `server`; empty: one is started
        board_address (str): the board's own address; empty: from DHCP
        boot_from (str): the medium whose U-Boot writes; empty: the one that is selected
        erase_kib (int): erase block of a flash
        over (str): "tftp"; or "usb": by Snagboot's `snagflash`; or "console": by `loady`, slowly
        usb_port (str): of the board's U-Boot on USB, e.g. "0451:6165"
    """

    media: dict[str, str] = attr.ib(validator=attr.validators.instance_of(dict))
    listen: str = attr.ib(default=LOOPBACK, validator=attr.validators.instance_of(str))
    server: str = attr.ib(default="", validator=attr.validators.instance_of(str))
    port: int = attr.ib(default=TFTP_PORT, validator=attr.validators.instance_of(int))
    folder: str = attr.ib(default="", validator=attr.validators.instance_of(str))
    board_address: str = attr.ib(default="", validator=attr.validators.instance_of(str))
    boot_from: str = attr.ib(default="", validator=attr.validators.instance_of(str))
    erase_kib: int = attr.ib(default=128, validator=attr.validators.instance_of(int))
    over: str = attr.ib(default=_TFTP, validator=attr.validators.in_((_TFTP, _USB, _CONSOLE)))
    usb_port: str = attr.ib(default="", validator=attr.validators.instance_of(str))

    def writers(self, strategy: Any) -> Mapping[str, Writer]:
        if not self.media:
            raise ConfigurationError("UBootWriterDriver: media: expected e.g. {emmc: mmc 0, ospi: sf}")
        return {name: self._writer(strategy, as_uboot) for name, as_uboot in self.media.items()}

    def _writer(self, strategy: Any, as_uboot: str) -> Writer:
        medium = ubootmedia.parse(as_uboot, erase_bytes=self.erase_kib * 1024)
        served = BoardServer(self.listen, self.server, self.port, self.board_address, self.folder)
        loader: Loader = served
        line = ConsoleLine(strategy.console, strategy.power.clock)
        if self.over == _CONSOLE:
            loader = OverConsole(line, strategy.type.console.speed_bd)
        if self.over == _USB:
            loader = OverUsb(line, strategy.type.prompts.uboot, self.usb_port, snagboot.run_here)

        def begin() -> CommandPrompt:
            elsewhere = getattr(strategy.console, "board_host", "")
            if self.over == _TFTP:
                served.check_reached(elsewhere)
            if self.over == _USB and elsewhere:
                raise ConfigurationError(
                    f"UBootWriterDriver: over: usb: the board's USB is plugged into {elsewhere}, and nothing was "
                    "written. Write over the network (`over: tftp`) or the console, or run `lab provision` on "
                    f"{elsewhere}, with an env without RemotePlace"
                )
            if strategy.status.name != "bootloader" or strategy.uboot is None:
                if self.boot_from:
                    strategy.select_medium(self.boot_from)
                strategy.transition("bootloader")
            return uboot_prompt(strategy.uboot)

        def end() -> None:
            served.close()
            strategy.status = type(strategy.status).unknown

        writer = UBootWriter(f"uboot-{self.over}", medium, loader, begin, end, device=as_uboot)
        if isinstance(medium, ubootmedia.UBootBlocks) and medium.interface == "mmc":
            return emmc_boot_partitions.from_uboot(writer, medium.number)
        return writer


class CommandLine(YmodemLine, Protocol):
    """A line with a prompt at its other end."""

    def sendline(self, text: str) -> None:
        """Type a command, proved by its echo.

        Raises:
            BoardlabError: characters of each try were lost.
        """
        ...


@frozen
class OverConsole:
    """A `lab.provision.writers.uboot.Loader` over the console, by `loady`.

    Attributes:
        speed_bd: of the console.
    """

    line: CommandLine
    speed_bd: int

    @property
    def rate(self) -> float:
        """Bytes a second."""
        return self.speed_bd / BITS_PER_BYTE / _OVERHEAD

    @property
    def note(self) -> str:
        """Speed of the transfer."""
        return (
            f"over the console at {self.speed_bd} Bd: {self.rate / 1000:.1f} kB/s, "
            f"so {1e6 / self.rate:.0f} s for each megabyte"
        )

    def prepare(self, prompt: CommandPrompt) -> None:
        """Make sure that U-Boot has `loady`.

        Raises:
            ConfigurationError: this U-Boot has no `loady`.
        """
        lines, _, _ = prompt.run("help loady", timeout=SHORT_S)
        if not has_command(lines):
            raise ConfigurationError(
                "this U-Boot has no command `loady`: write the medium another way, or build U-Boot with "
                "CONFIG_CMD_LOADB"
            )

    def load(self, _prompt: CommandPrompt, address: int, data: bytes, name: str) -> None:
        """Send the bytes by YMODEM into the board's memory.

        Raises:
            RecoveryFailedError, WriteStalledError: as of `Sending.send`, or other bytes arrived than were sent.
        """
        self.line.sendline(f"loady {address:#x}")
        Sending(self.line, data, name).send(_ASKS_S)
        heard, deadline = b"", self.line.now_ns() + round(_ENDS_S * 1e9)
        while (total := _TOTAL.search(heard)) is None and (remaining_s := (deadline - self.line.now_ns()) / 1e9) > 0:
            heard += self.line.read(remaining_s)
        if total is None or int(total[1]) != len(data):
            answer = quote(heard.decode("latin-1").splitlines())
            raise RecoveryFailedError(f"{name}: {len(data)} bytes were sent over the console, and {answer}. Try again")

    def rest(self) -> None:
        """Do nothing; nothing was begun."""


@frozen
class OverUsb:
    """A `lab.provision.writers.uboot.Loader` over USB, by fastboot and Snagboot's `snagflash`.

    U-Boot's own commands say afterwards what is written, and where, as with every other loader; so nothing depends on
    which commands a fastboot device offers. U-Boot: cmd/fastboot.c, `fastboot [-l addr] [-s size] usb <controller>`,
    which ctrl-C ends.

    Attributes:
        line: the console.
        prompt: U-Boot's, a regular expression.
        port: of the board on USB, e.g. "0451:6165".
        run: runs a program.
        program: finds `snagflash`.
        controller: U-Boot's number of its USB device port.
    """

    line: CommandLine
    prompt: str
    port: str
    run: snagboot.RunProgram
    program: Callable[[], str] = lambda: snagboot.find_program("snagflash")
    controller: int = 0
    rate: float = _USUAL_RATE
    note: str = "over USB, by snagflash"

    def prepare(self, prompt: CommandPrompt) -> None:
        """Make sure that U-Boot has `fastboot` and this host `snagflash`.

        Raises:
            ConfigurationError: this U-Boot has no `fastboot`, or this host no `snagflash`, or there can be no such
                port.
        """
        snagboot.download_command(self.program(), self.port, Path())
        lines, _, _ = prompt.run("help fastboot", timeout=SHORT_S)
        if not has_command(lines):
            raise ConfigurationError(
                "this U-Boot has no command `fastboot`: write the medium another way, or build U-Boot with "
                "CONFIG_USB_FUNCTION_FASTBOOT"
            )

    def load(self, _prompt: CommandPrompt, address: int, data: bytes, name: str) -> None:
        """Send the bytes by `snagflash` into the board's memory.

        Raises:
            RecoveryFailedError, WriteStalledError: as of `snagboot.judge_download`, or U-Boot does not come back to
                its prompt.
        """
        with tempfile.TemporaryDirectory(prefix="boardlab-usb-") as folder:
            path = Path(folder) / name
            path.write_bytes(data)
            command = snagboot.download_command(self.program(), self.port, path)
            self.line.sendline(f"fastboot -l {address:#x} -s {len(data):#x} usb {self.controller}")
            end = self.run(command, _LEAST_S + len(data) / _SLOWEST)
        self._back(name)
        snagboot.judge_download(end)

    def rest(self) -> None:
        """Do nothing; `snagflash` has ended."""

    def _back(self, name: str) -> None:
        """End fastboot, and wait for the prompt."""
        while self.line.read(0):
            pass  # the echo of the command stands behind a prompt
        self.line.write(_CTRL_C)
        heard, deadline = b"", self.line.now_ns() + round(_ENDS_S * 1e9)
        while (remaining_s := (deadline - self.line.now_ns()) / 1e9) > 0:
            heard += self.line.read(remaining_s)
            if re.search(self.prompt.encode(), heard):
                return
        answer = quote(heard.decode("latin-1").splitlines())
        raise RecoveryFailedError(
            f"{name}: U-Boot did not come back from `fastboot`: {answer}. The next try switches it off and on"
        )
