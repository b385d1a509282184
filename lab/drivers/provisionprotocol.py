"""Protocol of drivers that write a board's media."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

from lab.provision.writer import Way


class ProvisionProtocol(abc.ABC):
    """A driver that writes media.

    `lab provision` asks those of an environment in their order; the first that offers a medium writes it.
    """

    @abc.abstractmethod
    def ways(self, strategy: Any) -> Mapping[str, Way]:
        """Map each medium to this driver's way to write it.

        Nothing is switched or opened yet.

        Args:
            strategy: the board's BoardStrategy, whose power, medium, U-Boot and Linux a way may use (`transition`,
                `select_medium`, `interrupt`). When a way ends, well or not, its status is `unknown` or `off`.
        """
