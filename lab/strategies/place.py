"""The labgrid place that a board belongs to: whoever may use it can be taken away from him at any time."""

from __future__ import annotations

import logging
from typing import Any

from attrs import define, field
from labgrid.resource.remote import RemotePlace

from lab.errors import LabStableError, LabTransientError

_log = logging.getLogger(__name__)


@define
class HeldPlaces:
    """The places of a target, and who held them when they were first looked at.

    labgrid looks once, when it makes the target; whoever takes the place afterwards switches the board's power, too.
    """

    target: Any
    _holders: dict[str, str] = field(factory=dict, init=False)

    def check(self) -> None:
        """Ask the coordinator whether they are still held by the same; one that does not answer takes nothing away.

        Raises:
            LabStableError: one is not.
        """
        for resource in self.target.resources:
            if isinstance(resource, RemotePlace):
                manager = resource.get_managed_parent().manager
                self._check(manager.url, manager.session.get_place(resource.name).name)

    def _check(self, address: str, name: str) -> None:
        from exporters.farm.coordinator import Coordinator  # noqa: PLC0415 - gRPC takes a while to import

        try:
            now = Coordinator(address).holder(name)
        except LabTransientError as error:
            _log.warning("whose place %s is cannot be asked: %s", name, error)
            return
        before = self._holders.setdefault(name, now)
        if not now or now != before:
            raise LabStableError(
                f"labgrid's place {name} was taken away: it was {before or 'nobody'}'s, and is {now or 'nobody'}'s now. "
                "The board is not touched any more; acquire the place again, then resume",
                failure="place_lost",
            )
