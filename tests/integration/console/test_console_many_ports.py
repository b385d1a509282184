"""A host with more ports than a shell's limit of open files has room for, and what it costs to ask how they are."""

from __future__ import annotations

import resource
import subprocess
import sys

from support.console_bench import ConsoleBench, wait_for

from lab.console import ConsoleClient
from lab.console.loop import PORTS_AT_ONCE
from lab.host.runtime import prepare, socket_path

PORTS = PORTS_AT_ONCE + 4
FILES = 2 * PORTS  # a port has three


def few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def test_ports_beyond_the_soft_limit_of_files_are_opened_and_their_status_comes_in_pieces(bench: ConsoleBench) -> None:
    runtime = prepare(bench.runtime)
    words = [sys.executable, "-P", "-m", "lab.console.server", "--runtime", str(runtime), "--detach"]
    subprocess.run(words, check=True, preexec_fn=few_files)
    names = [f"uart{number}" for number in range(PORTS)]
    with ConsoleClient(socket_path(runtime)) as client:
        for name in names:
            client.open(bench.adapter(name).link, name=name)
        assert [port.info.name for port in client.status().ports] == names
        assert [port.info.name for port in client.status(names[-1]).ports] == names[-1:]
        assert client.status("nobody").ports == []
        first = client._ask("status", {"after": 0})
        assert len(first["ports"]) == PORTS_AT_ONCE
        assert first["more"] == PORTS_AT_ONCE
        assert len(client._ask("status", {})["ports"]) == PORTS  # an older client's question
        client.close_port(names[3])
        assert [port.info.name for port in client.status().ports] == names[:3] + names[4:]
        bench.adapters[-1].say(b"x")
        wait_for(lambda: client.status(names[-1]).ports[0].received_bytes == 1, "the last port is read")
