"""The labgrid place that a board belongs to, which can be taken away at any time."""

from __future__ import annotations

import logging
from typing import Any

from attrs import define, field
from labgrid.resource.remote import RemotePlace

from lab.errors import LabStableError, LabTransientError

_log = logging.getLogger(__name__)


@define
class PlaceHolders:
    """Places of a target and their holders at the first check.

    labgrid checks once, when it makes the target. A later holder of the place switches the board's power, too.
    """

    target: Any
    _holders: dict[str, str] = field(factory=dict, init=False)

    def check(self) -> None:
        """Check that the places' holders are unchanged.

        A coordinator that does not answer changes nothing.

        Raises:
            LabStableError: a place has another holder.
        """
        for resource in self.target.resources:
            if isinstance(resource, RemotePlace):
                manager = resource.get_managed_parent().manager
                self._check(manager.url, manager.session.get_place(resource.name).name)

    def _check(self, address: str, name: str) -> None:
        from lab.places.coordinator import Coordinator  # noqa: PLC0415 - gRPC takes a while to import

        try:
            now = Coordinator(address).holder(name)
        except LabTransientError as error:
            _log.warning("whose place %s is cannot be asked: %s", name, error)
            return
        before = self._holders.setdefault(name, now)
        if not now or now != before:
            raise LabStableError(
                f"labgrid's place {name} was taken away: it was {before or 'nobody'}'s, and is {now or 'nobody'}'s "
                "now. The board is not touched any more; acquire the place again, then resume",
                failure="place_lost",
            )
