"""Banners of bootloaders and firmware that no shipped board type has; drafts of new types use them."""

from __future__ import annotations

from typing import Final

from attrs import field, frozen, validators

from lab.boards import MomentPattern
from lab.boards.markers import check_regex


@frozen
class Banner:
    """The first line that a bootloader, a firmware, the kernel or its init prints.

    Attributes:
        name: name of the moment.
        title: name of the program, for stages.
        pattern: regular expression within one line.
        reference: source of the pattern.
    """

    name: str = field(validator=validators.matches_re(r"[a-z0-9_]+"))
    title: str
    pattern: str = field(validator=check_regex)
    reference: str

    @property
    def moment(self) -> MomentPattern:
        """The banner as a moment of a board type."""
        return MomentPattern(self.name, self.pattern, reference=self.reference)


# The kernel's time before a line; vendors' kernels add the processor or the task.
_STAMP: Final = r"(<\d>)?\[ *\d+\.\d{6}(@\d+)?\]( *\[[^\]]{1,30}\]| c\d)? *"
BANNERS: Final = (
    Banner("bootrom", "boot ROM", r"BootROM - \d", "logs of Marvell Armada boards"),
    Banner("ddr", "DDR firmware", r"DDR Version \d", "Rockchip rkbin, logs of RK3399 boards"),
    Banner("boot0", "BOOT0", r"HELLO! BOOT0 is starting", "Allwinner's boot0, logs of A10 and H3 boards"),
    Banner("fsbl", "FSBL", r"Xilinx Zynq ?MP First Stage Boot Loader", "Xilinx embeddedsw zynqmp_fsbl xfsbl_main.c"),
    Banner("at91bootstrap", "AT91Bootstrap", r"AT91Bootstrap \d", "at91bootstrap main.c"),
    Banner("tpl", "TPL", r"U-Boot TPL 20\d\d\.\d\d", "U-Boot common/spl/spl.c preloader_console_init"),
    Banner("mb1", "MB1", r"I> MB1 ", "logs of NVIDIA Jetson boards"),
    Banner("mb2", "MB2", r"I> Welcome to MB2", "logs of NVIDIA Jetson boards"),
    Banner("cboot", "Cboot", r"[Ww]elcome to [Cc]boot", "logs of NVIDIA Jetson boards"),
    Banner("tfa_bl2", "BL2", r"NOTICE:  BL2: v\d", "TF-A bl2/bl2_main.c"),
    Banner("opensbi", "OpenSBI", r"OpenSBI v\d", "OpenSBI lib/sbi/sbi_init.c sbi_boot_print_banner"),
    Banner("coreboot", "coreboot", r"coreboot-\S+ .*bootblock starting", "coreboot src/lib/bootblock.c"),
    Banner("coreboot", "coreboot", r"coreboot-\S+ .*romstage starting", "coreboot src/lib/romstage"),
    Banner("seabios", "SeaBIOS", r"SeaBIOS \(version ", "SeaBIOS src/bootsplash.c, src/post.c"),
    Banner("depthcharge", "depthcharge", r"Starting depthcharge on ", "depthcharge src/base"),
    Banner("uefi", "UEFI", r"UEFI firmware \(version ", "edk2 ArmPlatformPkg/PrePi"),
    Banner("barebox", "Barebox", r"barebox 20\d\d\.\d\d", "Barebox common/version.c"),
    Banner("lk", "LK", r"welcome to lk\b", "LK kernel/main.c"),
    Banner("cfe", "CFE", r"\bCFE version \d", "Broadcom's CFE, logs of BCM47xx and BCM1125 boards"),
    Banner("redboot", "RedBoot", r"RedBoot\(tm\) bootstrap", "eCos redboot main.c"),
    Banner("uboot", "U-Boot", r"U-Boot 1\.\d\.\d", "U-Boot 1.x lib_*/board.c version_string"),
    Banner("grub", "GRUB", r"Welcome to GRUB!|GNU GRUB +version \d", "GRUB kern/main.c, normal/main.c"),
    Banner("grub", "GRUB", r"Booting `", "GRUB normal/menu.c"),
    Banner("grub_linux", "GRUB", r"Loading Linux \S+ \.\.\.", "GRUB util/grub.d/10_linux.in"),
    Banner("first_printk", "kernel", rf"{_STAMP}Booting Linux on physical CPU", "logs of Amlogic and Samsung"),
    Banner("first_printk", "kernel", rf"{_STAMP}Linux version \d", "logs of Amlogic and Samsung"),
    Banner("android_init", "Android's init", r"\binit: init first stage started!", "Android system/core/init"),
)
TITLES: Final = {banner.name: banner.title for banner in BANNERS} | {
    "spl": "SPL",
    "uboot": "U-Boot",
    "tfa": "TF-A",
    "bl1": "BL1",
    "first_printk": "kernel",
    "efi_stub": "EFI stub",
}
