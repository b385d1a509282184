"""U-Boot's default environment: the variables and scripts that boot a board.

The names that a lab sets (mmcdev, bootpart, optargs, uuid and the scripts around them) are those of U-Boot's
include/env/ti/mmc.env and board/ti/am62x/am62x.env. The scripts are shorter than TI's.
"""

from __future__ import annotations

from lab.virtual.sim.model import Model
from lab.virtual.sim.setup import SimSetup

_FIND = (
    "mmc dev ${{mmcdev}}; if mmc rescan; then {found}"
    "if run loadbootscript; then source ${{loadaddr}}; else if run loadbootenv; then "
    "echo Loaded env from ${{bootenvfile}}; run importbootenv; fi; "
    'if test -n "${{uenvcmd}}"; then echo Running uenvcmd ...; run uenvcmd; fi; fi; fi'
)
_FOUND = "echo SD/MMC found on device ${mmcdev}; "
_FOUND_UNTIL = (
    2024  # public logs with U-Boot 2023.04 have it, and one with 2024.04; another with that, of SDK 10.1, not
)
_COMMON = {
    "baudrate": "115200",
    "bootdelay": "2",
    "loadaddr": "0x82000000",
    "fdtaddr": "0x88000000",
    "bootenvfile": "uEnv.txt",
    "loadbootscript": "fatload mmc ${mmcdev} ${loadaddr} boot.scr",
    "loadbootenv": "fatload mmc ${mmcdev} ${loadaddr} ${bootenvfile}",
    "importbootenv": "echo Importing environment from mmc${mmcdev} ...; env import -t ${loadaddr} ${filesize}",
    "load_mmc": "run findmmc; load mmc ${bootpart} ${loadaddr} /boot/${kernel} && "
    "load mmc ${bootpart} ${fdtaddr} /boot/dtb/board.dtb",
    "load_flash": "sf probe && ubi part ospi.rootfs && ubifsmount ubi0:rootfs && "
    "ubifsload ${loadaddr} /boot/${kernel} && ubifsload ${fdtaddr} /boot/dtb/board.dtb",
    "finduuid": "part uuid mmc ${bootpart} uuid",
    "args_mmc": "run finduuid; "
    "setenv bootargs console=${console} ${earlycon} ${optargs} root=PARTUUID=${uuid} rw rootfstype=ext4 rootwait",
    "args": "setenv bootargs console=${console} ${earlycon} ${optargs} root=${root} rw ${rootargs}",
}
_BOOT = "run load_${{boot}} && run {args} && ${{bootkernel}} ${{loadaddr}} - ${{fdtaddr}}"
_EXTLINUX = (
    "mmc dev ${mmcdev}; echo Scanning mmc ${mmcdev}:1...; echo Found /extlinux/extlinux.conf; "
    "sysboot mmc ${mmcdev}:1 any ${fdtaddr} /extlinux/extlinux.conf"
)
_AM43XX = {
    "load_nand": "nand read ${loadaddr} 0xa00000 0x600000 && nand read ${fdtaddr} 0x80000 0x20000",
    "load_qspi": "sf probe && sf read ${loadaddr} 0x800000 0x600000 && sf read ${fdtaddr} 0x700000 0x20000",
}


def default(model: Model, medium: str, setup: SimSetup) -> dict[str, str]:
    """Environment of a board that booted from `medium`.

    It is a lab's for that medium, or TI's own, which loads Linux from the SD card whatever SPL was loaded from.
    """
    zipped = model.family.kernel_file == "zImage"
    sd = 0 if zipped else 1
    device = sd if setup.stock else {"sd": sd, "emmc": 0}.get(medium)
    values = {
        **_COMMON,
        **(_AM43XX if zipped else {}),
        "findmmc": _FIND.format(found=_FOUND if model.year <= _FOUND_UNTIL else ""),
        "bootcmd": _BOOT.format(args="args_mmc" if setup.stock else "args"),
        "board_name": model.board.name,
        "console": f"{model.board.console.linux},{model.board.console.speed_bd}n8",
        "earlycon": f"earlycon={model.family.earlycon}" if model.kernel_version < (6, 6) else "",
        "kernel": model.family.kernel_file,
        "bootkernel": "bootz" if zipped else "booti",
        "root": model.board.media[medium].root,
        "rootargs": "rootfstype=ext4 rootwait",
    }
    if device is None:
        values |= {"boot": medium if zipped else "flash", "rootargs": "rootfstype=ubifs ubi.mtd=ospi.rootfs"}
    else:
        values |= {"boot": "mmc", "mmcdev": str(device), "bootpart": f"{device}:2"}
        values |= {"boot_extlinux": _EXTLINUX, "bootcmd": "run boot_extlinux"} if setup.extlinux else {}
    return {**values, **setup.variables}
