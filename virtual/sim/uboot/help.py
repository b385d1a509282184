"""What `help` says of each of U-Boot's commands."""

from __future__ import annotations

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "bdinfo": "print Board Info structure",
    "boot": "boot default, i.e., run 'bootcmd'",
    "booti": "boot Linux kernel 'Image' format from memory",
    "bootz": "boot Linux zImage image from memory",
    "cmp.b": "memory compare",
    "echo": "echo args to console",
    "env": "environment handling commands",
    "false": "do nothing, unsuccessfully",
    "fatload": "load binary file from a dos filesystem",
    "fatls": "list files in a directory (default /)",
    "fatwrite": "write file into a dos filesystem",
    "help": "print command description/usage",
    "load": "load binary file from a filesystem",
    "md.l": "memory display",
    "mmc": "MMC sub system",
    "mmcinfo": "display MMC info",
    "nand": "NAND sub-system",
    "part": "disk partition related commands",
    "printenv": "print environment variables",
    "reset": "Perform RESET of the CPU",
    "run": "run commands in an environment variable",
    "saveenv": "save environment variables to persistent storage",
    "setenv": "set environment variables",
    "sf": "SPI flash sub-system",
    "sleep": "delay execution for some time",
    "source": "run script from memory",
    "sysboot": "command to get and boot from syslinux files",
    "test": "minimal test like /bin/sh",
    "time": "run commands and summarize execution time",
    "true": "do nothing, successfully",
    "ubi": "ubi commands",
    "ubifsload": "load file from an UBIFS filesystem",
    "ubifsmount": "mount UBIFS volume",
    "version": "print monitor, compiler and linker version",
}
