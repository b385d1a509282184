"""The lab around a board, from the environment's target option `benchmarks`."""

from __future__ import annotations

from collections.abc import Mapping

import cattrs
from attrs import Factory, field, fields, frozen, validators

from lab.errors import ConfigurationError
from lab.metrics import Flag

OPTION = "benchmarks"
MINUTE_S = 60


@frozen
class LabSite:
    """Addresses, folders and overwritable media.

    Attributes:
        tester: address of the tester on the board's private link.
        board: of the board on it.
        interface: the board's network interface on that link.
        scratch: overwritable by destructive sections: a partition of Linux for "emmc", "sd" and "nand", the first
            byte of a range ("0x1000000") for "ospi".
        uboot: the media for timed reads by U-Boot -> its device: "mmc 0", "nvme 0", "sf", "sf 0:0".
        tftp: a file for U-Boot's timed download, from the TFTP server that DHCP names, or from another one
            ("192.168.0.1:FILE").
        eembc: folder of the EEMBC suites on the board.
        gfxbench, glbenchmark: of the graphics suites.
        usb_disk: the tester's disk device of the board's USB gadget.
        crypto_module: the kernel module of the crypto accelerator, e.g. "sa2ul"; empty: loaded modules stay.
        pacing_us: interrupt pacing of the section that measures with it; the guides do not state theirs.
        seconds: duration of fio, iperf3 and cyclictest (sysbench and stress-ng: a sixth); numbers of a shorter time
            than the guides' minute are flagged.
        repeats: cycles of each section in a run; None: the section's default.
    """

    tester: str = "192.168.0.1"
    board: str = "192.168.0.2"
    interface: str = "eth0"
    scratch: Mapping[str, str] = Factory(dict)
    uboot: Mapping[str, str] = Factory(dict)
    tftp: str = ""
    eembc: str = "/opt/eembc"
    gfxbench: str = "/opt/gfxbench"
    glbenchmark: str = "/opt/glbenchmark"
    usb_disk: str = "/dev/disk/by-id/usb-Linux_File-Stor_Gadget-0:0"
    pacing_us: int = 250
    crypto_module: str = ""
    seconds: int = field(default=MINUTE_S, validator=validators.ge(1))
    repeats: int | None = field(default=None, validator=validators.optional(validators.ge(1)))

    @property
    def doubts(self) -> frozenset[Flag]:
        """The flag of numbers with a shorter duration than the guides'."""
        return frozenset({Flag.SHORTENED}) if self.seconds < MINUTE_S else frozenset()


def of_options(options: object, where: str) -> LabSite:
    """The site of an environment's target option.

    Args:
        where: the place, for messages.

    Raises:
        ConfigurationError: an unknown key, or a value of another kind.
    """
    names = ", ".join(option.name for option in fields(LabSite))
    try:
        return cattrs.Converter(forbid_extra_keys=True).structure(options or {}, LabSite)
    except (cattrs.BaseValidationError, TypeError, AttributeError) as error:
        reasons = (
            cattrs.transform_error(error, path=OPTION) if isinstance(error, cattrs.BaseValidationError) else [error]
        )
        raise ConfigurationError(f"{where}: {'; '.join(map(str, reasons))}; the option takes: {names}") from error
