"""Alerts that a lab host sends without Prometheus: failed units, tests."""

from __future__ import annotations

import datetime as dt
import socket
from collections.abc import Iterator, Mapping
from typing import Any, Final

import requests
import yaml
from attrs import frozen

from lab.errors import ConfigurationError, LabStableError, LabTransientError
from lab.farm.config import Farm
from lab.host.clock import utc_now
from lab.terminal import plain_text

FAILED, TEST = "BoardlabUnitFailed", "BoardlabTest"
_RUNBOOK: Final = "docs/runbooks.md#"
_RUNBOOK_URL: Final = "/runbooks/#"  # as in alerts.yml
_FAILED_LASTS: Final = dt.timedelta(hours=1)  # longer than an inhibiting alert takes to arrive
_TEST_LASTS: Final = dt.timedelta(minutes=5)


def alertmanager(farm: Farm) -> Alertmanager:
    """Alertmanager of the host.

    Raises:
        ConfigurationError: farm.yaml names none.
    """
    if not farm.alertmanager:
        raise ConfigurationError(
            "no alert can be sent: farm.yaml names no Alertmanager; add the key, e.g. `alertmanager: 127.0.0.1:9093`"
        )
    return Alertmanager(farm.alertmanager)


def unit_failed(farm: Farm, unit: str) -> None:
    """Send the alert of a failed systemd unit.

    Raises:
        BoardlabError: Alertmanager did not take it.
    """
    labels = {"alertname": FAILED, "severity": "ticket", "unit": unit, "host": socket.gethostname()}
    for schedule in farm.schedules:
        if unit == f"boardlab-{schedule.name}.service":
            labels |= {"schedule": schedule.name, "board": schedule.board}
    annotations = {
        "summary": f"{unit} failed on {labels['host']}",
        "description": (
            f"systemd says so, and starts it again where it is to run always; `journalctl -u {unit}` on "
            f"{labels['host']} has the reason."
        ),
        **_runbook(farm, FAILED),
    }
    alertmanager(farm).post(labels, annotations, _FAILED_LASTS)


def _runbook(farm: Farm, alert: str) -> dict[str, str]:
    """Runbook annotations of every alert."""
    return {
        "runbook": f"{_RUNBOOK}{alert.lower()}",
        "runbook_url": f"{farm.documents}{_RUNBOOK_URL}{alert.lower()}",
    }


def test_alert(farm: Farm) -> list[Receiver]:
    """Send an alert through the whole chain and return its receivers.

    Raises:
        BoardlabError: no receiver is filled in, or Alertmanager did not take it.
    """
    manager = alertmanager(farm)
    ready = manager.ready_receivers()
    host = socket.gethostname()
    annotations = {
        "summary": f"boardlab's test alert from {host}",
        "description": "`lab farm test-alert` sent this. Nothing is wrong; it is resolved within minutes.",
        **_runbook(farm, TEST),
    }
    manager.post({"alertname": TEST, "severity": "ticket", "host": host}, annotations, _TEST_LASTS)
    return ready


DEADLINE_S: Final = 10.0
PLACEHOLDER: Final = ".invalid"  # the domain that never exists (RFC 2606), in the configuration as it is shipped
_HIDDEN: Final = "<secret>"
_HINT: Final = "start it (systemctl start prometheus-alertmanager), or correct `alertmanager` in farm.yaml"
_ANSWER_CHARS: Final = 200  # characters of an answer


@frozen
class Receiver:
    """One way to a person.

    Attributes:
        described: e.g. "mail to a@example.org through 127.0.0.1:25".
        filled_in: it is not as boardlab ships it.
    """

    described: str
    filled_in: bool


@frozen
class Alertmanager:
    """A running Alertmanager.

    Attributes:
        address: host:port.
    """

    address: str

    def receivers(self) -> list[Receiver]:
        """Receivers of its routes, as it has loaded them.

        Raises:
            BoardlabError: it does not answer, or not as Alertmanager does.
        """
        answer = self._ask("GET", "status")
        try:
            return list(receivers(yaml.safe_load(answer.json()["config"]["original"])))
        except (ValueError, LookupError, TypeError, AttributeError, yaml.YAMLError) as error:
            raise ConfigurationError(
                f"{self.address} answers, but not as Alertmanager's API v2 does ({type(error).__name__}); correct "
                "`alertmanager` in farm.yaml"
            ) from error

    def ready_receivers(self) -> list[Receiver]:
        """The receivers that are filled in.

        Raises:
            BoardlabError: as of `receivers`; or there are none.
        """
        all_receivers = self.receivers()
        ready = [receiver for receiver in all_receivers if receiver.filled_in]
        if not ready:
            there = ", ".join(receiver.described for receiver in all_receivers) or "none at all"
            raise ConfigurationError(
                f"no alert would arrive: Alertmanager at {self.address} has no receiver that is filled in ({there}). "
                "Fill in `to` and `url` in its configuration, then: systemctl reload prometheus-alertmanager"
            )
        return ready

    def post(self, labels: Mapping[str, str], annotations: Mapping[str, str], lasts: dt.timedelta) -> None:
        """Give it an alert, which is resolved after a while.

        Raises:
            BoardlabError: it does not answer, or refuses the alert.
        """
        now = utc_now()
        alert = {
            "labels": dict(labels),
            "annotations": dict(annotations),
            "startsAt": now.isoformat(),
            "endsAt": (now + lasts).isoformat(),
        }
        self._ask("POST", "alerts", [alert])

    def _ask(self, method: str, what: str, body: object = None) -> requests.Response:
        url = f"http://{self.address}/api/v2/{what}"
        try:
            with requests.Session() as session:
                session.trust_env = False  # no proxy stands between a lab host and its own Alertmanager
                answer = session.request(method, url, json=body, timeout=DEADLINE_S)
        except requests.RequestException as error:
            raise LabTransientError(
                f"Alertmanager at {self.address} does not answer ({type(error).__name__}): {_HINT}",
                failure="alertmanager",
            ) from error
        if not answer.ok:
            text = plain_text(answer.text.strip())[:_ANSWER_CHARS]
            raise LabStableError(
                f"Alertmanager at {self.address} refused {method} {what}: {answer.status_code} {text}; look at its "
                "log, and whether `alertmanager` in farm.yaml is its address",
                failure="alertmanager",
            )
        return answer


def receivers(config: Mapping[str, Any]) -> Iterator[Receiver]:
    """The receivers that the routes of a configuration lead to."""
    used = set(_route_receivers(config["route"]))
    smarthost = (config.get("global") or {}).get("smtp_smarthost", "")
    for receiver in config.get("receivers") or ():
        if receiver["name"] in used:
            for kind, entries in receiver.items():
                if kind.endswith("_configs"):
                    for entry in entries or ():
                        yield _receiver(kind.removesuffix("_configs"), entry, smarthost)


def _route_receivers(route: Mapping[str, Any]) -> Iterator[str]:
    if "receiver" in route:
        yield route["receiver"]
    for inner in route.get("routes") or ():
        yield from _route_receivers(inner)


def _receiver(kind: str, entry: Mapping[str, Any], smarthost: str) -> Receiver:
    match kind:
        case "email":
            to = str(entry.get("to", ""))
            text = f"mail to {to} through {entry.get('smarthost', smarthost)}"
            return Receiver(text, bool(to) and PLACEHOLDER not in to)
        case "webhook":
            url = str(entry.get("url", ""))
            return Receiver(f"webhook {'(its address is hidden)' if url == _HIDDEN else url}", PLACEHOLDER not in url)
    return Receiver(kind, filled_in=True)
