"""Prometheus and Alertmanager, from the distribution's packages, on loopback and in a folder of their own."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final

import requests
import yaml
from attrs import frozen

from lab.virtual.ports import free_port

ROOT: Final = Path(__file__).resolve().parents[2]
RULES: Final = ROOT / "farm" / "prometheus" / "rules"
DEADLINE_S: Final = 180.0  # of a busy machine
_POLL_S: Final = 0.1


def http() -> requests.Session:
    """Without a proxy."""
    session = requests.Session()
    session.trust_env = False
    return session


def until(holds: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + deadline_s
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {deadline_s:g} s"
        time.sleep(_POLL_S)


def answers(url: str) -> bool:
    """Whether there is a good answer."""
    with contextlib.suppress(requests.ConnectionError), http() as session:
        return session.get(url, timeout=10).ok
    return False


@contextlib.contextmanager
def program(words: Sequence[str | Path], ready: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server that runs until the end of the block."""
    with log.open("wb") as output, subprocess.Popen(words, stdout=output, stderr=output) as process:
        try:
            until(lambda: process.poll() is not None or answers(ready), f"{words[0]} answers")
            assert process.poll() is None, log.read_text()
            yield process
        finally:
            process.terminate()
            process.wait(DEADLINE_S)


@frozen
class Prometheus:
    """A running Prometheus."""

    url: str

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The result of an instant query.

        Raises:
            AssertionError: Prometheus does not understand it.
        """
        with http() as session:
            answer = session.get(f"{self.url}/api/v1/query", params={"query": expression}, timeout=DEADLINE_S).json()
        assert answer["status"] == "success", f"{expression}: {answer}"
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result

    def targets(self) -> list[dict[str, Any]]:
        """The targets that are scraped."""
        with http() as session:
            found: list[dict[str, Any]] = session.get(f"{self.url}/api/v1/targets", timeout=DEADLINE_S).json()["data"][
                "activeTargets"
            ]
        return found

    def alerts(self) -> list[dict[str, Any]]:
        """The alerts that are pending or firing."""
        with http() as session:
            found: list[dict[str, Any]] = session.get(f"{self.url}/api/v1/alerts", timeout=DEADLINE_S).json()["data"][
                "alerts"
            ]
        return found


@contextlib.contextmanager
def prometheus(folder: Path, target: str, alertmanager: str = "", **scrape: object) -> Iterator[Prometheus]:
    """A Prometheus with our rules that scrapes one exporter every second.

    Args:
        target: host:port. alertmanager: host:port, where there is one. scrape: more of the scrape configuration.
    """
    config = yaml.safe_load((ROOT / "farm" / "prometheus" / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(path) for path in RULES.iterdir()]
    del config["scrape_configs"][0]["file_sd_configs"]
    config["scrape_configs"][0].update({"static_configs": [{"targets": [target]}], **scrape})
    managers = [{"static_configs": [{"targets": [alertmanager]}]}] if alertmanager else []
    config["alerting"] = {"alertmanagers": managers}
    folder.mkdir()
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    words = ("prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data")
    with program([*words, f"--web.listen-address={address}"], f"http://{address}/-/ready", folder / "log"):
        yield Prometheus(f"http://{address}")


@contextlib.contextmanager
def alertmanager(
    folder: Path, webhook: str, smarthost: str = "", to: str = "lab@example.org", *, speed: float = 0.0
) -> Iterator[str]:
    """An Alertmanager with our configuration, its two values filled in; its host:port.

    Args:
        smarthost: host:port of the mail server; empty: no mail is sent.
        speed: all its times pass so much faster; 0: it tells at once.
    """
    text = (ROOT / "farm" / "alertmanager" / "alertmanager.yml").read_text()
    config = yaml.safe_load(text)
    receiver = next(each for each in config["receivers"] if each["name"] != "nobody")
    receiver["webhook_configs"][0]["url"] = webhook
    receiver["email_configs"][0]["to"] = to
    config["global"]["smtp_smarthost"] = smarthost or "127.0.0.1:25"
    if not smarthost:
        del receiver["email_configs"]
    options = re.findall(r"--data\.\w+=\w+", text)
    if speed:
        for route in (config["route"], *config["route"]["routes"]):
            its = [key for key in route if key.endswith(("_wait", "_interval"))]
            route.update({key: _faster(route[key], speed) for key in its})
        options = [re.sub(r"\w+$", lambda found: _faster(found[0], speed), each) for each in options]
        options.append("--data.maintenance-interval=200ms")
    else:
        config["route"].update({"group_wait": "0s", "group_interval": "1s"})
        for route in config["route"]["routes"]:
            route.pop("group_wait", None)
    config["templates"] = [str(path) for path in (ROOT / "farm" / "alertmanager").glob("*.tmpl")]
    folder.mkdir()
    (folder / "alertmanager.yml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    words = ("prometheus-alertmanager", f"--config.file={folder}/alertmanager.yml", f"--storage.path={folder}/data")
    words = (*words, f"--web.listen-address={address}", "--cluster.listen-address=", *options)
    with program(words, f"http://{address}/-/ready", folder / "log"):
        yield address


def _faster(text: str, speed: float) -> str:
    seconds = int(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]
    return f"{max(1, round(seconds / speed * 1000))}ms"


class Webhook:
    """Who is told of alerts."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        told = self.told

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                told.extend(json.loads(body)["alerts"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Webhook:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def alert(self, name: str, status: str = "firing", **labels: str) -> dict[str, Any] | None:
        """The first alert of that name, status and labels that was told."""
        named = (a for a in self.told if a["labels"]["alertname"] == name and a["status"] == status)
        return next((a for a in named if labels.items() <= a["labels"].items()), None)
