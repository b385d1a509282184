"""labgrid strategies: a board's life as a state machine. Importing this module registers them."""

from lab.run.board import Status
from lab.strategies.boardstrategy import BoardStrategy

__all__ = ["BoardStrategy", "Status"]
