"""Power outlets, as who switched them told; and whether pdudaemon answers."""

from __future__ import annotations

from pathlib import Path

import requests
from attrs import frozen
from prometheus_client import Metric

from exporters.farm.build import counter, gauge
from lab.errors import LabTransientError
from lab.host import runtime
from lab.host.runtime import OutletStatus

TIMEOUT_S = 5.0


@frozen
class Outlets:
    """The outlets that programs of this runtime folder switched."""

    runtime: Path

    def read(self) -> list[Metric]:
        """What was told last of each outlet."""
        found = runtime.read_all(self.runtime / runtime.OUTLETS, OutletStatus)
        labels = ["server", "pdu", "outlet"]
        return [
            gauge(
                "boardlab_outlet_last_command_on",
                "Whether the last command was on (1) or off (0).",
                labels,
                [((o.server, o.pdu, o.outlet), float(o.command == "on")) for o in found],
            ),
            gauge(
                "boardlab_outlet_last_command_timestamp_seconds",
                "When the last command was given.",
                labels,
                [((o.server, o.pdu, o.outlet), o.at) for o in found],
            ),
            gauge(
                "boardlab_outlet_last_command_duration_seconds",
                "How long the switch took for it, or until we gave up.",
                labels,
                [((o.server, o.pdu, o.outlet), o.duration_s) for o in found],
            ),
            counter(
                "boardlab_outlet_commands",
                "Commands.",
                labels,
                [((o.server, o.pdu, o.outlet), o.commands) for o in found],
            ),
            counter(
                "boardlab_outlet_failures",
                "Commands that failed.",
                labels,
                [((o.server, o.pdu, o.outlet), o.failures) for o in found],
            ),
        ]


@frozen
class PduDaemonProbe:
    """pdudaemon at host:port."""

    address: str

    def read(self) -> list[Metric]:
        """Nothing but that it answers: any answer to HTTP will do, and no outlet is touched.

        Raises:
            LabTransientError: it does not answer.
        """
        try:
            with requests.Session() as session:
                session.trust_env = False  # a lab's pdudaemon is not behind the proxy that $http_proxy names
                session.get(f"http://{self.address}/", timeout=TIMEOUT_S)
        except requests.RequestException as error:
            raise LabTransientError(
                f"pdudaemon at {self.address} does not answer ({type(error).__name__}); start it, or mend `pdudaemon:` "
                "in farm.yaml",
                failure="pdu_unreachable",
            ) from error
        return []
