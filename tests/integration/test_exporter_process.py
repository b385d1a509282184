"""`lab exporter` as a process: what it says, and how it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import requests
from support.prometheus_server import until
from support.virtual_bench import LAB

from lab.results import open_store
from lab.virtual.ports import free_port

DEADLINE_S = 60.0


def test_its_log_is_in_its_own_words_and_it_ends_on_a_signal(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'results.db'}"
    with open_store(database):
        pass
    words = [LAB, "exporter", "--db", database, "--listen", "127.0.0.1:0", "--interval", "0.1", "--runtime", tmp_path]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as exporter:
        assert exporter.stdout is not None
        said = []
        while not {"INFO collector results is up\n", "INFO collector jobs is up\n"} <= set(said):
            said.append(exporter.stdout.readline())
            assert said[-1], "it ended"
        exporter.send_signal(signal.SIGTERM)
        rest, _ = exporter.communicate(timeout=DEADLINE_S)
    text = "".join(said) + rest
    assert exporter.returncode == 0
    assert text.splitlines()[-1] == "ending"
    assert "serving http://127.0.0.1:" in text
    for foreign in ("alembic", "Context impl", "transactional DDL"):
        assert foreign not in text


def test_a_new_release_in_farm_yaml_is_expected_by_the_exporter_that_runs(tmp_path: Path) -> None:
    """A schedule's new release has no success yet, which alerts stand on; a file that is wrong is told of by its collector."""
    farm = tmp_path / "farm.yaml"
    text = "database: sqlite:///results.db\nexporter: {listen: '127.0.0.1:%d'}\nschedules: [{name: night, env: e.yaml, board: b, release: '%s'}]\n"
    port = free_port()
    farm.write_text(text % (port, "11.02"))
    with open_store(f"sqlite:///{tmp_path / 'results.db'}"):
        pass

    def said(name: str, *words: str) -> bool:
        with contextlib.suppress(requests.ConnectionError):
            lines = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=DEADLINE_S).text.splitlines()
            return any(line.startswith(name) and all(word in line for word in words) for line in lines)
        return False

    def expects(release: str) -> bool:
        return said("boardlab_schedule_interval_seconds{", 'schedule="night"', f'release="{release}"')

    words = [LAB, "exporter", "--farm", farm, "--interval", "0.1", "--runtime", tmp_path / "run"]
    with subprocess.Popen(words, cwd="/") as exporter:
        try:
            until(lambda: expects("11.02"), "the exporter expects the release of farm.yaml")
            farm.write_text("schedules: [{}]\n")
            until(lambda: said('boardlab_collector_up{collector="farm_file"} 0.0'), "a wrong farm.yaml is told")
            assert expects("11.02")
            farm.write_text(text % (port, "11.03"))
            until(lambda: expects("11.03"), "the exporter expects the new release")
            assert not expects("11.02")
            assert said('boardlab_collector_up{collector="farm_file"} 1.0')
        finally:
            exporter.terminate()
            assert exporter.wait(DEADLINE_S) == 0, "it is the same process"
