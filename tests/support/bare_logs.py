"""Bare logs of boots, built line by line: what real boards were seen to print, in our own words where they do not matter."""

from __future__ import annotations

SPL = "U-Boot SPL 2025.01-g0123456789ab (Jun 26 2025 - 14:32:24 +0000)"
SYSFW = "SYSFW ABI: 4.0 (firmware rev 0x000b '11.1.0--v11.01.00 (Fancy Rat)')"
TFA = ["Starting ATF on ARM64 core...", "", "NOTICE:  BL31: v2.12.0(release):11.00.15", "NOTICE:  BL31: Built : 09:18"]
UBOOT = ["", "U-Boot 2025.01-g0123456789ab (Jun 26 2025 - 14:32:24 +0000)", "", "DRAM:  2 GiB", "Net:   eth0"]
COUNTDOWN = "Hit any key to stop autoboot:  2 \b\b\b 1 \b\b\b 0 "
MMC = ["switch to partitions #0, OK", "mmc1(part 0) is current device", "SD/MMC found on device 1"]
START = ["", "Starting kernel ...", ""]
KERNEL = [
    "[    0.000000] Booting Linux on physical CPU 0x0000000000 [0x410fd034]",
    "[    0.000000] Linux version 6.12.34-ti (oe-user@oe-host) #1 SMP",
    "[    0.000000] Kernel command line: console=ttyS2,115200n8 root=/dev/mmcblk1p2 rw rootwait",
    "[    1.500000] mmcblk1: mmc1:aaaa SC32G 29.7 GiB",
]
ROOT = [
    "[    2.300000] EXT4-fs (mmcblk1p2): mounted filesystem 766e618e-b399 r/w with ordered data mode. Quota mode: none.",
    "[    2.310000] VFS: Mounted root (ext4 filesystem) on device 179:98.",
]
INIT = ["[    2.400000] Run /sbin/init as init process"]
USER = ["[  OK  ] Reached target Multi-User System.", "", "Arago 2025.01 am62xx-evm ttyS2", ""]
FLASH = "SF: Detected mx66l51235l with page size 256 Bytes, erase size 64 KiB, total 64 MiB"
LOGIN = "am62xx-evm login: "


def first_spl(device: str = "MMC2") -> list[str]:
    """The SPL of the R5, up to TF-A."""
    return ["", SPL, SYSFW, f"Trying to boot from {device}", "Authentication passed", *TFA]


def second_spl(device: str = "MMC2") -> list[str]:
    """The SPL of the A53."""
    return ["", SPL, SYSFW, f"Trying to boot from {device}", "Authentication passed", ""]


def k3(
    *,
    device: str = "MMC2",
    countdown: str = COUNTDOWN,
    uboot: list[str] | None = None,
    kernel: list[str] | None = None,
    root: list[str] | None = None,
    init: list[str] | None = None,
    end: str = LOGIN,
) -> list[str]:
    """A boot of a K3 board from SD, some of it in other words."""
    return [
        *first_spl(device),
        *second_spl(device),
        *UBOOT,
        countdown,
        *(MMC if uboot is None else uboot),
        *START,
        *(KERNEL if kernel is None else kernel),
        *(ROOT if root is None else root),
        *(INIT if init is None else init),
        *USER,
        end,
    ]


def am437x(device: str = "SPI", *, probed_again: bool = True) -> list[str]:
    """A boot of an AM437x from QSPI, which has U-Boot's environment as well, with Linux 4.9, which does not say what it runs."""
    return [
        "",
        "U-Boot SPL 2017.01-g9fd60700db (Jun 28 2017 - 09:38:07)",
        f"Trying to boot from {device}",
        "",
        "U-Boot 2017.01-g9fd60700db (Jun 28 2017 - 09:38:07)",
        "",
        FLASH,
        "Press SPACE to abort autoboot in 2 seconds",
        *([FLASH] if probed_again else []),
        *START,
        "[    0.000000] Booting Linux on physical CPU 0x0",
        "[    0.000000] Linux version 4.9.28-geed43d1050 (gcc version 6.2.1) #1 PREEMPT",
        "[    0.000000] Kernel command line: console=ttyO0,115200n8 root=/dev/mtdblock6 rw rootfstype=jffs2",
        "[    3.000000] VFS: Mounted root (jffs2 filesystem) on device 31:6.",
        "[    3.500000] systemd[1]: System time before build time, advancing clock.",
        "",
        "am437x-evm login: ",
    ]


def falcon(*, quiet: bool = False, prompt: str = LOGIN) -> list[str]:
    """SPL starts Linux itself."""
    kernel = [line for line in (*KERNEL, *ROOT, *INIT) if not quiet]
    return [*first_spl()[1:4], "Loading falcon payload from MMC2", *TFA, *kernel, *USER, prompt]


def efi() -> list[str]:
    """U-Boot's `bootefi` starts the kernel."""
    stub = [
        "Booting /\\EFI\\BOOT\\bootaa64.efi",
        "EFI stub: Booting Linux Kernel...",
        "EFI stub: Exiting boot services...",
    ]
    at = (lines := k3()).index(START[1])
    return [*lines[:at], *stub, *lines[at + 1 :]]


def quieted(lines: list[str]) -> list[str]:
    """The same boot with a kernel that prints nothing."""
    return [line for line in lines if line not in {*KERNEL, *ROOT, *INIT}]


def sbl(first: str = "SYSFW Firmware Version 10.1.8--v10.01.08 (Fiery Fox)") -> list[str]:
    """TI's secondary bootloader in place of the first SPL."""
    return [
        first,
        "[BOOTLOADER_PROFILE] Boot Media       : SD Card",
        "[BOOTLOADER_PROFILE] SBL Total Time Taken             :     588627us",
        "",
        "Image loading done, switching to application ...",
        "Starting linux and RTOS/Baremetal applications",
        *TFA[2:],
        *second_spl(),
        *UBOOT,
        COUNTDOWN,
        *MMC,
        *START,
        *KERNEL,
        *ROOT,
        *INIT,
        *USER,
        LOGIN,
    ]


def of_flow(flow: str) -> list[str]:
    """A boot of that flow, as its numbers name it."""
    ways = {"normal": k3, "falcon": falcon, "efi": efi, "sbl": sbl}
    if flow in ways:
        return ways[flow]()
    return quieted(of_flow("normal" if flow == "quiet" else flow.removesuffix("_quiet")))
