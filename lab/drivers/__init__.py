"""labgrid resources and drivers of boardlab; the import registers them.

An environment has `imports: [lab.drivers]`. Writers of other packages come with it (`lab.extensions`).
"""

from lab import extensions
from lab.drivers.automationdrivers import AutomationBootModeDriver, AutomationPort, AutomationPowerDriver
from lab.drivers.bootmodedriver import BootModeDriver
from lab.drivers.commandoutputdriver import CommandOutputDriver
from lab.drivers.linuxwriterdriver import LinuxWriterDriver
from lab.drivers.multiplexedcarddriver import MultiplexedCardDriver
from lab.drivers.railsdriver import RailsDriver, RailSensors
from lab.drivers.sideconsoledriver import SideConsoleDriver
from lab.drivers.stampedconsoledriver import StampedConsoleDriver
from lab.drivers.stampedpdudaemondriver import StampedPDUDaemonDriver
from lab.drivers.testerdriver import TesterDriver
from lab.drivers.ubootwriterdriver import UBootWriterDriver
from lab.drivers.virtualsdmux import VirtualSDMux, VirtualSDMuxDriver
from lab.drivers.wakepinsdriver import WakePinsDriver

extensions.load(extensions.WRITERS)

__all__ = [
    "AutomationBootModeDriver",
    "AutomationPort",
    "AutomationPowerDriver",
    "BootModeDriver",
    "CommandOutputDriver",
    "LinuxWriterDriver",
    "MultiplexedCardDriver",
    "RailSensors",
    "RailsDriver",
    "SideConsoleDriver",
    "StampedConsoleDriver",
    "StampedPDUDaemonDriver",
    "TesterDriver",
    "UBootWriterDriver",
    "VirtualSDMux",
    "VirtualSDMuxDriver",
    "WakePinsDriver",
]
