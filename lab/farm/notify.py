"""Alerts that a lab host sends by itself, past Prometheus: a unit of its own failed, or a build, or somebody tests the chain."""

from __future__ import annotations

import datetime as dt
import socket
from typing import Final

from attrs import frozen

from lab.errors import ConfigurationError
from lab.farm.alertmanager import Alertmanager, Receiver
from lab.farm.config import Farm

FAILED, BUILD, TEST = "BoardlabUnitFailed", "BoardlabBuildFailed", "BoardlabTest"
_RUNBOOK: Final = "docs/runbooks.md#"
_RUNBOOK_URL: Final = "/runbooks/#"  # as in alerts.yml
_FAILED_LASTS: Final = dt.timedelta(hours=1)  # longer than Alertmanager waits for what says more
_TEST_LASTS: Final = dt.timedelta(minutes=5)


@frozen
class Build:
    """A build of Buildbot that ended for good, without all that was ordered.

    Attributes:
        builder: e.g. "boot on am62x-sk-1". schedule: whose it is. said: how it ended. page: its address.
    """

    builder: str
    schedule: str
    board: str
    said: str
    page: str


def alertmanager(farm: Farm) -> Alertmanager:
    """The host's.

    Raises:
        ConfigurationError: farm.yaml names none.
    """
    if not farm.alertmanager:
        raise ConfigurationError(
            "nobody is told: farm.yaml names no Alertmanager; add the key, e.g. `alertmanager: 127.0.0.1:9093`"
        )
    return Alertmanager(farm.alertmanager)


def unit_failed(farm: Farm, unit: str) -> None:
    """Send the alert that a unit of systemd failed; of a schedule's also its board.

    Raises:
        BoardlabError: Alertmanager did not take it.
    """
    labels = {"alertname": FAILED, "severity": "ticket", "unit": unit, "host": socket.gethostname()}
    for schedule in farm.schedules:
        if unit == f"boardlab-{schedule.name}.service":
            labels |= {"schedule": schedule.name, "board": schedule.board}
    annotations = {
        "summary": f"{unit} failed on {labels['host']}",
        "description": f"systemd says so, and starts it again where it is to run always; `journalctl -u {unit}` on {labels['host']} has the reason.",
        **_runbook(farm, FAILED),
    }
    alertmanager(farm).post(labels, annotations, _FAILED_LASTS)


def build_failed(farm: Farm, build: Build) -> None:
    """Send the alert that a build of a schedule failed.

    Raises:
        BoardlabError: Alertmanager did not take it.
    """
    labels = {"alertname": BUILD, "severity": "ticket", "schedule": build.schedule, "board": build.board}
    annotations = {
        "summary": f"{build.builder}: a build of {build.schedule} failed",
        "description": f"Buildbot does not begin it again: {build.said}. {build.page} has what it said.",
        **_runbook(farm, BUILD),
    }
    alertmanager(farm).post(labels, annotations, _FAILED_LASTS)


def _runbook(farm: Farm, alert: str) -> dict[str, str]:
    """Annotations of every alert."""
    return {
        "runbook": f"{_RUNBOOK}{alert.lower()}",
        "runbook_url": f"{farm.documents}{_RUNBOOK_URL}{alert.lower()}",
    }


def test_alert(farm: Farm) -> list[Receiver]:
    """Send an alert through the whole chain; returns where it should arrive.

    Raises:
        BoardlabError: nobody would be told, or Alertmanager did not take it.
    """
    manager = alertmanager(farm)
    ready = manager.ready_receivers()
    host = socket.gethostname()
    annotations = {
        "summary": f"boardlab's test alert from {host}",
        "description": "Somebody tried `lab farm test-alert`. Nothing is wrong; it is resolved within minutes.",
        **_runbook(farm, TEST),
    }
    manager.post({"alertname": TEST, "severity": "ticket", "host": host}, annotations, _TEST_LASTS)
    return ready
