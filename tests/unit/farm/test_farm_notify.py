"""Who is told: what `lab farm` asks of an Alertmanager, and what it says where nobody would be."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.facts import missing_facts

from lab.cli import main
from lab.farm.notify import FAILED, TEST, receivers
from lab.virtual.ports import free_port

ROOT = Path(__file__).resolve().parents[3]
SHIPPED = yaml.safe_load((ROOT / "farm" / "alertmanager" / "alertmanager.yml").read_text())


class Stand:
    """Stands in for an Alertmanager: what it says of itself, and what it was given."""

    def __init__(self) -> None:
        self.config: Any = SHIPPED
        self.refuses = 0
        self.alerts: list[dict[str, Any]] = []
        stand = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer(200, {"config": {"original": yaml.safe_dump(stand.config)}})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if not stand.refuses:
                    stand.alerts += body
                self.answer(stand.refuses or 200, "no \x1b[31mmore")

            def answer(self, status: int, body: object) -> None:
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def stand() -> Iterator[Stand]:
    stand = Stand()
    thread = threading.Thread(target=stand.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield stand
    stand.server.shutdown()
    thread.join()
    stand.server.server_close()


def filled_in() -> Any:
    """The shipped configuration with its two values."""
    config = yaml.safe_load(yaml.safe_dump(SHIPPED))
    config["receivers"][0]["email_configs"][0]["to"] = "lab@example.org"
    config["receivers"][0]["webhook_configs"][0]["url"] = "http://chat.example.org/hook"
    return config


NIGHTLY = "schedules: [{name: nightly, env: sim-am62x.yaml, board: am62xx_sk-1}]\n"


def farm(tmp_path: Path, address: str, more: str = NIGHTLY) -> str:
    path = tmp_path / "farm.yaml"
    path.write_text(f"directory: {ROOT}\nalertmanager: '{address}'\n{more}")
    return str(path)


def test_the_two_values_are_all_that_is_to_be_filled_in() -> None:
    assert [receiver.filled_in for receiver in receivers(SHIPPED)] == [False, False]
    mail, webhook = receivers(filled_in())
    assert (mail.filled_in, webhook.filled_in) == (True, True)
    assert not missing_facts(mail.described, "mail", "lab@example.org", "127.0.0.1:25")
    assert not missing_facts(webhook.described, "webhook", "http://", "chat.example.org/hook")


def test_a_receiver_that_no_route_leads_to_tells_nobody() -> None:
    config = {
        **SHIPPED,
        "receivers": [*SHIPPED["receivers"], {"name": "spare", "webhook_configs": [{"url": "http://x"}]}],
    }
    assert not any(receiver.filled_in for receiver in receivers(config))
    config["route"] = {**SHIPPED["route"], "routes": [{"receiver": "spare"}]}
    assert any(receiver.filled_in for receiver in receivers(config))


def test_a_test_alert_says_where_it_should_arrive(
    stand: Stand, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stand.config = filled_in()
    assert main(["farm", "test-alert", farm(tmp_path, stand.address)]) == 0
    said = capsys.readouterr().out
    assert not missing_facts(said, "lab@example.org", "127.0.0.1:25")
    assert "webhook http://chat.example.org/hook" in said
    (alert,) = stand.alerts
    assert alert["labels"]["alertname"] == "BoardlabTest"
    assert alert["startsAt"] < alert["endsAt"]


def test_an_alert_leads_to_the_labs_own_documents(stand: Stand, tmp_path: Path) -> None:
    stand.config = filled_in()
    path = Path(farm(tmp_path, stand.address))
    path.write_text(f"documents: https://docs.lab.example\n{path.read_text()}", encoding="utf-8")
    assert main(["farm", "test-alert", str(path)]) == 0
    assert main(["farm", "notify", str(path), "boardlab-exporter.service"]) == 0
    found = [alert["annotations"]["runbook_url"] for alert in stand.alerts]
    assert found == [f"https://docs.lab.example/runbooks/#boardlab{what}" for what in ("test", "unitfailed")]


def test_nobody_would_be_told_where_no_receiver_is_filled_in(
    stand: Stand, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = farm(tmp_path, stand.address, more="")
    assert main(["farm", "test-alert", path]) == 2
    assert "no receiver" in capsys.readouterr().err
    assert stand.alerts == []
    assert main(["farm", "check", path]) == 2
    assert "mail to you@fill-in.invalid" in capsys.readouterr().out
    stand.config = filled_in()
    assert main(["farm", "check", path]) == 0


def test_an_alertmanager_that_does_not_answer_is_named_with_its_mend(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"127.0.0.1:{free_port()}"
    path = farm(tmp_path, address)
    assert main(["farm", "check", path]) == 2
    assert not missing_facts(capsys.readouterr().out, "alertmanager: ", address)
    assert main(["farm", "test-alert", path]) != 0
    assert "systemctl start" in capsys.readouterr().err


def test_what_is_no_alertmanager_is_said_to_be_none(
    stand: Stand, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stand.config = ["a list"]
    assert main(["farm", "test-alert", farm(tmp_path, stand.address)]) == 2
    assert not missing_facts(capsys.readouterr().err, stand.address, "API v2")


def test_a_refused_alert_is_said_without_what_moves_the_cursor(
    stand: Stand, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stand.config, stand.refuses = filled_in(), 400
    assert main(["farm", "test-alert", farm(tmp_path, stand.address)]) != 0
    said = capsys.readouterr().err
    assert "refused POST alerts: 400" in said
    assert "\x1b" not in said


def test_a_farm_without_an_alertmanager_is_warned_and_not_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = farm(tmp_path, "", more="")
    assert main(["farm", "check", path]) == 0
    assert not missing_facts(capsys.readouterr().out, "warning: ", "alerts")
    assert main(["farm", "test-alert", path]) == 2
    assert "names no Alertmanager" in capsys.readouterr().err


def test_a_unit_that_failed_is_told_with_its_board(stand: Stand, tmp_path: Path) -> None:
    path = farm(tmp_path, stand.address)
    assert main(["farm", "notify", path, "boardlab-nightly.service"]) == 0
    assert main(["farm", "notify", path, "boardlab-exporter.service"]) == 0
    run, exporter = (alert["labels"] for alert in stand.alerts)
    assert (run["alertname"], run["board"], run["schedule"]) == ("BoardlabUnitFailed", "am62xx_sk-1", "nightly")
    assert "board" not in exporter


def test_every_alert_that_lab_farm_posts_has_a_runbook() -> None:
    page = (ROOT / "docs" / "runbooks.md").read_text(encoding="utf-8")
    assert all(f"\n## {name}\n" in page for name in (FAILED, TEST))


def test_every_service_tells_that_it_failed() -> None:
    for path in (ROOT / "farm" / "systemd").glob("*.service"):
        tells = "boardlab-notify@%n.service" in path.read_text()
        assert tells is not path.name.startswith("boardlab-notify@"), path.name
