"""SD multiplexer of a virtual board, with labgrid's calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attr
import requests
from labgrid.driver import Driver
from labgrid.factory import target_factory
from labgrid.resource import Resource
from labgrid.step import step

from lab.drivers.guarded_calls import SWITCH_LIMIT_S
from lab.errors import LabTransientError
from lab.provision.errors import MediaMissingError, MultiplexerFailedError
from lab.provision.writers.sd_mux import Disk


@target_factory.reg_resource
@attr.s(eq=False)
class VirtualSDMux(Resource):
    """VirtualSDMux - the SD multiplexer of a virtual board

    Args:
        url (str): where its bench's panel switches it
        image (str): the file that the card is while it is at the host
    """

    url: str = attr.ib(validator=attr.validators.instance_of(str))
    image: str = attr.ib(converter=str)

    def disk(self) -> Disk:
        """The card, as a disk.

        Raises:
            MediaMissingError: it is not at the host.
        """
        try:
            return Disk(self.image, Path(self.image).stat().st_size, self.url)
        except OSError as error:
            raise MediaMissingError(f"{self.image}: {error.strerror}: the card is not at the host") from error


@target_factory.reg_driver
@attr.s(eq=False)
class VirtualSDMuxDriver(Driver):
    """VirtualSDMuxDriver - switches a virtual board's card to board or host"""

    bindings = {"mux": {"VirtualSDMux"}}

    @Driver.check_active
    @step(title="sdmux_set", args=["mode"])
    def set_mode(self, mode: str) -> None:
        """Move the card: "host", "dut" or "off".

        Raises:
            MultiplexerFailedError: the bench refused it, e.g. since the board is on.
            LabTransientError: it does not answer.
        """
        self._ask(mode)

    @Driver.check_active
    @step(title="sdmux_get")
    def get_mode(self) -> str:
        """Position of the card."""
        return self._ask(None)

    def _ask(self, mode: str | None) -> str:
        with requests.Session() as session:
            session.trust_env = False
            try:
                answer = session.request(
                    "GET" if mode is None else "PUT", self.mux.url, data=mode, timeout=SWITCH_LIMIT_S
                )
                reply: dict[str, Any] = answer.json()
            except requests.RequestException as error:
                raise LabTransientError(
                    f"{self.mux.url}: the bench does not answer "
                    f"({type(error).__name__}); is it up? `lab virtual status`",
                    failure="multiplexer_failed",
                ) from error
        if "state" not in reply:
            raise MultiplexerFailedError(f"SD multiplexer: {reply.get('error', reply)}")
        return str(reply["state"])
