"""U-Boot's test/py settings for sifive_u of `lab virtual up`.

Its network is QEMU's, and its media may be overwritten.
"""

import boardlab_boardenv

env__net_dhcp_server = True
if _file := boardlab_boardenv.served_file(0x8C00_0000):
    env__net_tftp_readable_file = _file

# Behind all that a boot loads from the flash.
env__sf_configs = ({"offset": 0x1F8_0000, "len": 0x1_0000, "writeable": True},)
