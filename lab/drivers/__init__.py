"""labgrid resources and drivers of boardlab. Importing this module registers them (`imports: [lab.drivers]`)."""

from lab.drivers.bootmodedriver import BootModeDriver
from lab.drivers.pdudriver import PDUDriver
from lab.drivers.stampedconsoledriver import StampedConsoleDriver
from lab.drivers.testerdriver import TesterDriver

__all__ = ["BootModeDriver", "PDUDriver", "StampedConsoleDriver", "TesterDriver"]
