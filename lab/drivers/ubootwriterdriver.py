"""Writer of media from U-Boot: network, USB, or console."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attr
from labgrid.driver import Driver
from labgrid.factory import target_factory

from lab.drivers.boardservers import BoardServer
from lab.drivers.consoleport import ConsoleLine
from lab.drivers.prompt import uboot_prompt
from lab.errors import ConfigurationError
from lab.provision import snagboot
from lab.provision.writer import ProvisionProtocol, Writer
from lab.provision.writers import emmc_boot_partitions, ubootmedia
from lab.provision.writers.command import CommandPrompt
from lab.provision.writers.file_server import LOOPBACK, TFTP_PORT
from lab.provision.writers.loaders import OverConsole, OverUsb
from lab.provision.writers.uboot import Loader, UBootWriter

_TFTP: Final = "tftp"
_CONSOLE: Final = "console"
_USB: Final = "usb"


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
            self._check_host(getattr(strategy.console, "board_host", ""), served)
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

    def _check_host(self, elsewhere: str, served: BoardServer) -> None:
        """Make sure that this host can send data to the board.

        The board may be on another host.

        Raises:
            ConfigurationError: it cannot.
        """
        if self.over == _TFTP:
            served.check_reached(elsewhere)
        if self.over == _USB and elsewhere:
            raise ConfigurationError(
                f"UBootWriterDriver: over: usb: the board's USB is plugged into {elsewhere}, and nothing was written. Write over the network "
                f"(`over: tftp`) or the console, or run `lab provision` on {elsewhere}, with an env without RemotePlace"
            )
