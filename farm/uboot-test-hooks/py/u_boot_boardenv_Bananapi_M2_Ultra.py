"""U-Boot's test/py settings for bpim2u of `lab virtual up`.

Its network is QEMU's, and its media may be overwritten.
"""

import boardlab_boardenv

env__net_dhcp_server = True
if _file := boardlab_boardenv.served_file(0x4A00_0000):
    env__net_tftp_readable_file = _file

# The SD card and the eMMC slot, which speaks the SD protocol. Before their first partition, behind the boot loader.
_MEDIA = (("sd", 0), ("emmc-slot", 1))
_PLACE = {"is_emmc": False, "partid": None, "sector": 0x700, "count": 64}
env__mmc_rd_configs = tuple({"fixture_id": name, "devid": number, **_PLACE} for name, number in _MEDIA)
env__mmc_wr_configs = tuple(
    {"fixture_id": name, "devid": number, "test_iterations": 3, **_PLACE} for name, number in _MEDIA
)
