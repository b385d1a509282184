"""Protocol of drivers that write a board's media."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

from lab.provision.writer import Writer


class ProvisionProtocol(abc.ABC):
    """A driver that writes media.

    `lab provision` asks those of an environment in their order; the first that offers a medium writes it.
    """

    @abc.abstractmethod
    def writers(self, strategy: Any) -> Mapping[str, Writer]:
        """Map each medium to its writer.

        Nothing is switched or opened yet.

        Args:
            strategy: the board's BoardStrategy, whose power, medium, U-Boot and Linux a writer may use (`transition`,
                `select_medium`, `interrupt`). When a writer ends, well or not, its status is `unknown` or `off`.
        """
