"""labgrid strategies: a board's life as a state machine. Importing this module registers them."""

from strategies.boardstrategy import BoardStrategy
from strategies.status import Status

__all__ = ["BoardStrategy", "Status"]
