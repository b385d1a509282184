"""Versions that a boot's console names: firmware, images, board."""

from __future__ import annotations

import pytest

from lab.benchmarks.versions import BootVersions

FIT = """\
U-Boot SPL 2025.01-00502-g5350f13b6639 (Jun 26 2025 - 14:32:24 +0000)
SYSFW ABI: 4.0 (firmware rev 0x000b '11.1.0--v11.01.00 (Fancy Rat)')
DM ABI: 3.0 (firmware ver 0x000b 'PSDK.11.01.00.04--v11.01.08a' patch_ver: 8)
NOTICE:  BL31: v2.12.0(release):11.00.15-3-g2ab59f45a-dirty
NOTICE:  BL31: Built : 09:18:24, Jun 23 2025
SoC:   AM62X SR1.0 HS-FS
Board: AM62B-SKEVM-P1 rev A
22392900 bytes read in 469 ms (45.5 MiB/s)
## Loading kernel from FIT Image at 90000000 ...
   Using 'conf-ti_k3-am6254xxl-sk.dtb' configuration
     Hash value:   ac7364f6f0ac830439aba008114d315c
## Loading fdt from FIT Image at 90000000 ...
   Using 'conf-ti_k3-am6254xxl-sk.dtb' configuration
     Hash value:   2af44d957e1f6ebc0feceff6eee5f815
Starting kernel ...
4096 bytes read in 1 ms (3.9 MiB/s)
[    0.000000] Machine model: Texas Instruments AM625 SK
[    1.100000] ti-sci 44043000.system-controller: ABI: 4.0 (firmware rev 0x000b '11.1.0--v11.01.00 (Fancy Rat)')
[    1.200000] optee: revision 4.5 (873f5f6c7201c07d)
"""


def read(text: str) -> dict[str, str]:
    versions = BootVersions()
    for line in text.splitlines():
        versions.whole_line(line)
    return versions.found


def test_all_of_a_boot_is_read() -> None:
    assert read(FIT) == {
        "spl": "2025.01-00502-g5350f13b6639",
        "sysfw": "4.0 (firmware rev 0x000b '11.1.0--v11.01.00 (Fancy Rat)')",
        "dm_firmware": "3.0 (firmware ver 0x000b 'PSDK.11.01.00.04--v11.01.08a' patch_ver: 8)",
        "tf_a": "v2.12.0(release):11.00.15-3-g2ab59f45a-dirty",
        "silicon": "AM62X SR1.0",
        "security": "HS-FS",
        "board_revision": "AM62B-SKEVM-P1 rev A",
        "image_bytes": "22392900",
        "device_tree": "ti_k3-am6254xxl-sk.dtb 2af44d957e1f",
        "optee": "4.5 (873f5f6c7201c07d)",
    }


@pytest.mark.parametrize(
    ("line", "name", "text"),
    [
        ("SYSFW ABI: 3.1 (firmware rev 0x0008 '8.5.3--v08.05.03 (Chill Capybar')", "sysfw", "8.5.3--v08.05.03"),
        ("SYSFW Firmware Version 9.2.7--v09.02.07 (Kool Koala)", "sysfw", "9.2.7--v09.02.07"),
        ("I/TC: OP-TEE version: 3.19.0-15-gd6c5d0037 (gcc version 9.2.1) #1", "optee", "3.19.0-15-gd6c5d0037"),
        ("optee optee: OP-TEE: revision 4.8 (8666beef)", "optee", "4.8 (8666beef)"),
        (
            "[    1.0] k3-chipinfo 43000014.chipid: Family:AM62X rev:SR1.0 JTAGID[0x0bb7e02f] Detected",
            "silicon",
            "AM62X SR1.0",
        ),
        ("CPU  : AM437X-GP rev 1.2", "silicon", "AM437X rev 1.2"),
        ("CPU  : AM437X-GP rev 1.2", "security", "GP"),
        ("Warning: Detected image signing certificate on GP device. Skipping certificate", "security", "GP"),
        (
            "02000000011a0000616d3632780000000000000048534653",
            "rom",
            "02000000011a0000616d3632780000000000000048534653",
        ),
    ],
)
def test_other_forms_are_read(line: str, name: str, text: str) -> None:
    assert text in read(line)[name]


def test_system_firmware_that_names_itself_differently_later_has_both_names() -> None:
    text = FIT.replace(
        "ABI: 4.0 (firmware rev 0x000b '11.1.0--v11.01.00 (Fancy Rat)')\n[    1.2",
        "ABI: 4.0 (firmware rev 0x000b '11.0.7--v11.00.07 (Fancy Rat)')\n[    1.2",
    )
    assert read(text)["sysfw"].count("firmware rev") == 2


def test_a_damaged_line_names_nothing() -> None:
    assert read("NOTICE:  BL31: v2.1\x072.0(release)\nU-Boot SPL 2025\xb301\n") == {}
