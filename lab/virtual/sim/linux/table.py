"""All commands of the simulated Linux: those that do something, and those that print the sample output of a program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lab.virtual.sim.linux import filetools, power, system, text
from lab.virtual.sim.linux.session import Tool
from lab.virtual.sim.sample_outputs import crypto, extras, media, memory, network, processor, storage

_SAMPLES = (crypto, extras, media, memory, network, processor, storage)
TOOLS: Final[Mapping[str, Tool]] = {
    **text.TOOLS,
    **filetools.TOOLS,
    **system.TOOLS,
    **power.TOOLS,
    **{name: tool for module in _SAMPLES for name, tool in module.TOOLS.items()},
}
