"""What a board type is, as data: prompts, UARTs, media and boot-mode values, moments of its boot.

One TOML file per type in `types/`, read by `load`. Real environments and virtual boards use the same files.
"""

from lab.boards.model import BoardType, Evidence, Medium, MomentPattern, Prompts, Timeouts, Uart
from lab.boards.registry import load, load_file, names

__all__ = [
    "BoardType",
    "Evidence",
    "Medium",
    "MomentPattern",
    "Prompts",
    "Timeouts",
    "Uart",
    "load",
    "load_file",
    "names",
]
