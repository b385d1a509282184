"""The compose file: its servers run with its arguments over what it mounts; of Grafana, which is not here, its files are there."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from support.prometheus_server import Prometheus, http, program, until

from lab.farm import systemd
from lab.farm.config import load
from lab.virtual.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 60


def monitoring(folder: Path) -> dict[str, Any]:
    """The services, in a copy of the folder `farm` with the files of a host that has its exporter at another port."""
    shutil.copytree(ROOT / "farm", folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "own.yaml").write_text("exporter: {listen: '127.0.0.1:9999'}\n")
    systemd.write(systemd.files(load(folder / "own.yaml")), folder)
    services: dict[str, Any] = yaml.safe_load((folder / "compose.yaml").read_text(encoding="utf-8"))["services"]
    return services


def command(service: dict[str, Any], folder: Path, data: Path, port: int) -> list[str]:
    """The arguments of a service, with the host's paths in place of the container's, at another port."""
    places = dict(volume.split(":")[1::-1] for volume in service["volumes"])
    words = [re.sub(r"(127\.0\.0\.1):\d+", rf"\1:{port}", word) for word in service["command"]]
    for inside, outside in places.items():
        where = folder / outside if outside.startswith("./") else data
        words = [word.replace(f"={inside}", f"={where}", 1) for word in words]
    return words


def test_prometheus_and_alertmanager_run_as_the_file_says(tmp_path: Path) -> None:
    folder = tmp_path / "monitoring"
    services = monitoring(folder)
    prometheus, alertmanager = services["prometheus"], services["alertmanager"]
    port = free_port()
    words = command(prometheus, folder, tmp_path / "prometheus", port)
    url = f"http://127.0.0.1:{port}"
    with program(["prometheus", *words], f"{url}/-/ready", tmp_path / "prometheus.log"), http() as session:

        def api(path: str) -> Any:
            return session.get(f"{url}/api/v1/{path}", timeout=TIMEOUT_S).json()["data"]

        assert Prometheus(url).query("vector(1)")
        names = {rule["name"] for group in api("rules")["groups"] for rule in group["rules"]}
        assert {"BoardlabAttemptFailed", "BoardlabVerdict"} <= names
        until(lambda: api("targets")["activeTargets"], "a target")
        targets = [target["discoveredLabels"]["__address__"] for target in api("targets")["activeTargets"]]
        assert targets == ["127.0.0.1:9999"], "the exporter of the host's farm.yaml"
        until(lambda: api("alertmanagers")["activeAlertmanagers"], "an Alertmanager")
        (address,) = (urlsplit(one["url"]).netloc for one in api("alertmanagers")["activeAlertmanagers"])
        assert f"--web.listen-address={address}" in alertmanager["command"]
    port = free_port()
    words = command(alertmanager, folder, tmp_path / "alertmanager", port)
    ready = f"http://127.0.0.1:{port}/-/ready"
    with program(["prometheus-alertmanager", *words], ready, tmp_path / "alertmanager.log"):
        pass


def test_grafana_finds_its_files_where_they_are_mounted(tmp_path: Path) -> None:
    folder = tmp_path / "monitoring"
    grafana = monitoring(folder)["grafana"]
    places = dict(volume.split(":")[1::-1] for volume in grafana["volumes"])
    (provider,) = yaml.safe_load((folder / "grafana/provisioning/dashboards/boardlab.yaml").read_text())["providers"]
    dashboards = folder / places[provider["options"]["path"]]
    home = Path(grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert (
        json.loads((folder / places[str(home.parent)] / home.name).read_text())["title"] == "boardlab: farm overview"
    )
    assert len(list(dashboards.glob("*.json"))) >= 6
    components = json.loads((ROOT / "tools/grafana/package.json").read_text())["dependencies"]
    assert grafana["image"] == f"grafana/grafana:{components['@grafana/ui']}"
