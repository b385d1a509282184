"""An SDK release on a board: console output and published numbers."""

from __future__ import annotations

from attrs import Attribute, AttrsInstance, Factory, field, fields, frozen, validators

LOW_POWER_SELECTIONS = ("none", "wakeup_device", "qos_ms", "qos_us")


def names_fields(instance: AttrsInstance, attribute: Attribute[list[str]], value: list[str]) -> None:
    """Validate that a list names other fields of its record."""
    names = {other.name for other in fields(type(instance))} - {attribute.name}
    unknown = [name for name in value if name not in names]
    if unknown:
        raise ValueError(f"{attribute.name} names {', '.join(unknown)}; there are: {', '.join(sorted(names))}")


@frozen
class PublishedRange:
    """A published number; `min` and `max` are those of its cycles."""

    mean: float
    min: float
    max: float

    def __attrs_post_init__(self) -> None:
        if not self.min <= self.mean <= self.max:
            raise ValueError(f"expected min <= mean <= max, got {self.min}, {self.mean}, {self.max}")


@frozen
class TransferRates:
    """A table of U-Boot's throughput.

    Attributes:
        write, read: transfer size in bytes (hexadecimal text, as the guides have it) -> KiB/s.
    """

    write: dict[str, float]
    read: dict[str, float]

    def __attrs_post_init__(self) -> None:
        for size in (*self.write, *self.read):
            try:
                int(size, 16)
            except ValueError as error:
                raise ValueError(f"expected a size in hexadecimal digits, got {size!r}") from error


@frozen
class Published:
    """Figures of the performance guide of this release for this board type.

    Attributes:
        boot_s: medium -> "Starting kernel" to the login prompt.
        shell_boot_s: medium -> the same with init=/bin/sh, to the shell prompt.
        uboot_kib_s: medium -> U-Boot's throughput.
        sleep_mw: sleep mode -> rail -> milliwatt; a rail that the guide calls "n/a" is left out.
        resume_ms: sleep mode -> resume latency on the kernel's clock.
    """

    boot_s: dict[str, PublishedRange] = Factory(dict)
    shell_boot_s: dict[str, PublishedRange] = Factory(dict)
    uboot_kib_s: dict[str, TransferRates] = Factory(dict)
    sleep_mw: dict[str, dict[str, float]] = Factory(dict)
    resume_ms: dict[str, float] = Factory(dict)


@frozen
class SdkRelease:
    """One release's software on one board type, as its console prints.

    Attributes:
        uboot: version and build of SPL and U-Boot, as after "U-Boot ".
        sysfw: ABI and revision of the system firmware, as after "SYSFW ABI: "; empty: none on this SoC.
        dm_firmware: the same of the device manager's, as after "DM ABI: "; empty: SPL does not print it.
        bl31: version of TF-A, as after "BL31: "; empty: none on this SoC.
        bl31_built: its build stamp.
        stack_bytes: SPL's initial stack usage, on the boot core and on the application core.
        device: "GP", or the security state that the chip says ("HS-FS", "HS-SE").
        kernel: output of `uname -r`.
        distribution: name at the login prompt, e.g. "Arago 2025.01".
        assumed: fields without a public source: chosen in the likeness of other boards and releases.
        low_power: selection of MCU-only before a suspend: none, by making the MCU core a wake-up device, or by the
            CPU's resume latency in milliseconds (10.x) or microseconds (11.0 on).
    """

    uboot: str
    kernel: str
    distribution: str
    sysfw: str = ""
    dm_firmware: str = ""
    bl31: str = ""
    bl31_built: str = ""
    stack_bytes: list[int] = Factory(list)
    device: str = "GP"
    low_power: str = field(default="none", validator=validators.in_(LOW_POWER_SELECTIONS))
    published: Published = Published()
    assumed: list[str] = field(factory=list, validator=names_fields)
