"""The lab around a board, as the labgrid environment says it (target option `benchmarks`)."""

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
    """Addresses, folders and what may be overwritten.

    Attributes:
        tester: address of the tester on the board's private link. board: of the board on it.
        interface: the board's network interface on that link.
        scratch: what destructive sections may overwrite: a partition of Linux for "emmc", "sd" and "nand", the first
            byte of a range ("0x1000000") for "ospi".
        uboot: the media that U-Boot is timed at when it reads them -> its device there: "mmc 0", "nvme 0", "sf", "sf 0:0".
        tftp: a file of the TFTP server that DHCP names, or of another one ("192.168.0.1:FILE"), that U-Boot is timed at when it
            loads it.
        eembc: folder of the EEMBC suites on the board. gfxbench, glbenchmark: of the graphics suites.
        usb_disk: the disk as which the board's USB gadget shows up on the tester.
        crypto_module: the kernel module of the crypto accelerator, e.g. "sa2ul"; empty: whatever is loaded stays.
        pacing_us: interrupt pacing of the section that measures with it; the guides do not say theirs.
        seconds: how long fio, iperf3 and cyclictest run, and six times sysbench and stress-ng; numbers of a shorter time than the
            guides' minute are flagged.
        repeats: how many cycles of each section a run measures; None: as many as the section says.
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
        """The flag of numbers that were measured for a shorter time than the guides'."""
        return frozenset({Flag.SHORTENED}) if self.seconds < MINUTE_S else frozenset()


def of_options(options: object, where: str) -> LabSite:
    """The site of an environment's target option.

    Args:
        where: how to name the place to a person.

    Raises:
        ConfigurationError: an unknown key, or a value of another kind.
    """
    known = ", ".join(option.name for option in fields(LabSite))
    try:
        return cattrs.Converter(forbid_extra_keys=True).structure(options or {}, LabSite)
    except (cattrs.BaseValidationError, TypeError, AttributeError) as error:
        reasons = (
            cattrs.transform_error(error, path=OPTION) if isinstance(error, cattrs.BaseValidationError) else [error]
        )
        raise ConfigurationError(f"{where}: {'; '.join(map(str, reasons))}; the option takes: {known}") from error
