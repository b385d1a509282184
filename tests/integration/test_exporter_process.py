"""`lab exporter` as a process: what it says, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from virtual_bench import LAB

from lab.results import open_store

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
