"""Rules and configurations, judged by the tools that come with Prometheus."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import bcrypt
import yaml
from support import certificates

ROOT = Path(__file__).resolve().parents[2]
FARM = ROOT / "farm"


def said(*words: str | Path, folder: Path = FARM) -> str:
    done = subprocess.run(words, cwd=folder, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_promtool_finds_nothing_wrong_with_the_rules() -> None:
    rules = sorted((FARM / "prometheus" / "rules").iterdir())
    out = said("promtool", "check", "rules", "--lint=all", "--lint-fatal", *rules)
    assert out.count("SUCCESS") == len(rules)


def test_every_alert_comes_when_it_should_and_not_before() -> None:
    tests = FARM / "prometheus" / "tests"
    said("promtool", "test", "rules", *(path.name for path in tests.iterdir()), folder=tests)
    proved = {
        (case["alertname"], bool(case["exp_alerts"]))
        for path in tests.iterdir()
        for test in yaml.safe_load(path.read_text())["tests"]
        for case in test["alert_rule_test"]
    }
    alerts = set(re.findall(r"- alert: (\w+)", (FARM / "prometheus" / "rules" / "alerts.yml").read_text()))
    assert proved == {(alert, fires) for alert in alerts for fires in (True, False)}


def test_prometheus_and_alertmanager_accept_the_configurations() -> None:
    said("promtool", "check", "config", "prometheus/prometheus.yml")
    said_of_it = said("amtool", "check-config", "alertmanager/alertmanager.yml")
    assert "2 receivers" in said_of_it
    assert "1 templates" in said_of_it
    assert "7 inhibit rules" in said_of_it


def test_prometheus_knows_our_web_config_form(tmp_path: Path) -> None:
    certificates.make(tmp_path, "server")
    secret = bcrypt.hashpw(b"x", bcrypt.gensalt(4)).decode()
    tls = "{cert_file: server.crt, key_file: server.key, client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.crt}"
    (tmp_path / "web.yml").write_text(f"tls_server_config: {tls}\nbasic_auth_users: {{prom: {secret}}}\n")
    assert "SUCCESS" in said("promtool", "check", "web-config", tmp_path / "web.yml")
