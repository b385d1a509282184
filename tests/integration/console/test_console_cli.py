"""`lab console` as somebody at a terminal uses it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence

from support.console_bench import BOOT, BOOT_MOMENTS, DEADLINE_S, ConsoleBench, read_bytes

LAB = [sys.executable, "-c", "import sys; from lab.cli import main; sys.exit(main())", "console"]


def lab(bench: ConsoleBench, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LAB, *words], capture_output=True, text=True, timeout=DEADLINE_S, env=env(bench), check=False
    )


def env(bench: ConsoleBench) -> dict[str, str]:
    return {**os.environ, "BOARDLAB_RUNTIME": str(bench.runtime)}


def start(bench: ConsoleBench, words: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*LAB, *words], stdout=subprocess.PIPE, env=env(bench))


def test_status_shows_the_ports_and_stop_ends_the_server(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    client, _ = bench.opened(adapter, write=True)
    adapter.say(BOOT)
    read_bytes(client, len(BOOT))
    shown = lab(bench, "list").stdout
    assert f"uart0 - {len(BOOT)} " in " ".join(shown.split())
    assert f"pid {os.getpid()}" in shown
    document = json.loads(lab(bench, "list", "--json").stdout)
    assert document["ports"][0]["received_bytes"] == len(BOOT)
    assert lab(bench, "stop").stdout == "stopped\n"
    assert lab(bench, "stop").stdout == "no console server runs\n"
    refused = lab(bench, "list")
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: no console server answers at")


def test_tail_shows_what_comes_and_disturbs_nobody(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    client, _ = bench.opened(adapter, write=True)
    tail = start(bench, ["tail", "uart0"])
    assert tail.stdout is not None
    while client.status().ports[0].readers < 2:
        assert tail.poll() is None
    adapter.say(b"U-Boot 2023.01\r\n")
    assert os.read(tail.stdout.fileno(), 100) == b"U-Boot 2023.01\r\n"
    client.write(b"x")
    assert adapter.heard(1) == b"x"
    tail.send_signal(2)
    assert tail.wait(DEADLINE_S) == 130
    tail.stdout.close()


def test_serve_runs_until_interrupted(bench: ConsoleBench) -> None:
    server = start(bench, ["serve"])
    assert server.stdout is not None
    assert server.stdout.readline().startswith(b"serving ")
    assert bench.client().status().pid == server.pid
    again = lab(bench, "serve")
    assert again.returncode == 1
    assert "serves" in again.stderr
    server.send_signal(2)
    assert server.wait(DEADLINE_S) == 0
    server.stdout.close()


def test_a_live_recording_can_be_replayed(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    client, info = bench.opened(adapter)
    adapter.say(BOOT)
    read_bytes(client, len(BOOT))
    replayed = lab(bench, "replay", f"{info.recording}.log", "--json")
    moments = json.loads(replayed.stdout)["moments"]
    assert [moment["name"] for moment in moments] == BOOT_MOMENTS
    assert lab(bench, "show", f"{info.recording}.idx", "--raw").stdout == BOOT.decode().replace("\r\n", "\n")
