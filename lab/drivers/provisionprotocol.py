"""What a labgrid driver is that writes media of a board: it offers ways, by the medium that they write."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

from lab.provision.writer import Way


class ProvisionProtocol(abc.ABC):
    """A driver that writes media. `lab provision` asks those of an environment in their order; the first that offers a medium writes it."""

    @abc.abstractmethod
    def ways(self, strategy: Any) -> Mapping[str, Way]:
        """Medium -> the way that this driver writes it. Nothing is switched or opened yet.

        Args:
            strategy: the board's BoardStrategy, whose power, medium, U-Boot and Linux a way may use (`transition`, `select_medium`,
                `interrupt`). When a way ends, well or not, its status is `unknown` or `off`.
        """
