"""labgrid strategies: a board's life as a state machine. Importing this module registers them."""

from lab.strategies.boardstrategy import BoardStrategy
from lab.strategies.drivenboard import Status

__all__ = ["BoardStrategy", "Status"]
