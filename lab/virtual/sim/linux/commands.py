"""The commands of the simulated Linux, in one table.

The commands of `sample_outputs` only print the output of a program.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lab.virtual.sim.linux import filetools, system, text
from lab.virtual.sim.linux.session import Tool
from lab.virtual.sim.sample_outputs import media, memory, network, processor, storage

_SAMPLES = (processor, media, memory, network, storage)
TOOLS: Final[Mapping[str, Tool]] = {
    **text.TOOLS,
    **filetools.TOOLS,
    **system.TOOLS,
    **{name: tool for module in _SAMPLES for name, tool in module.TOOLS.items()},
}
