"""`lab farm check` through a real ssh: one host answers, one has no boardlab, one does not answer, one exports and runs nothing."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support import realsshd
from support.facts import missing_facts

from lab.host.ssh import SshLink

ROOT = Path(__file__).resolve().parents[2]
CLOSED = 1  # a port on which nothing listens
SSH = """\
Host lab-a lab-b
  HostName 127.0.0.1
  Port {port}
  IdentityFile {key}
Host lab-c
  HostName 127.0.0.1
  Port {closed}
Host *
  User {user}
  IdentitiesOnly yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
"""
PROGRAM = """\
#!/bin/sh
export PYTHONPATH={root} BOARDLAB_RUNTIME={runtime} LAB_DB={folder}/results.db
exec {python} -P -c 'import sys; from lab.cli import main; sys.exit(main())' "$@"
"""


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A runtime folder with a short path, as a user's is: ssh's sockets lie in it."""
    with TemporaryDirectory(prefix="run-") as folder:
        yield Path(folder)


def test_every_host_has_its_findings(tmp_path: Path, runtime: Path) -> None:
    program = tmp_path / "lab"
    program.write_text(PROGRAM.format(root=ROOT, folder=tmp_path, runtime=runtime, python=sys.executable))
    program.chmod(0o755)
    (tmp_path / "farm.yaml").write_text("user: nobody\n")  # a draft in the lab's folder, as `lab init` writes one
    here = tmp_path / "checked.yaml"
    environ = {**os.environ, "BOARDLAB_SSH_CONFIG": str(tmp_path / "ssh")}

    def checked(
        *hosts: str, its_program: Path = program, more: str = ""
    ) -> tuple[int, dict[str, list[dict[str, str]]]]:
        names = ", ".join(f"{{name: {host}}}" for host in hosts)
        here.write_text(f"directory: {tmp_path}\nprogram: {its_program}\nhosts: [{names}]\n{more}")
        done = subprocess.run(
            [program, "farm", "check", here, "--json"],
            env=environ,
            capture_output=True,
            check=False,
            cwd=tmp_path,
        )
        found: dict[str, list[dict[str, str]]] = {host: [] for host in hosts}
        for each in json.loads(done.stdout)["hosts"]:
            found[each["host"]].append(each)
        return done.returncode, found

    with realsshd.running_sshd(tmp_path) as sshd:
        user = pwd.getpwuid(os.geteuid()).pw_name
        (tmp_path / "ssh").write_text(SSH.format(port=sshd.port, key=sshd.key, closed=CLOSED, user=user))
        status, found = checked("lab-a", "lab-c")
        assert status == 2
        assert {"clocks", "versions", "disks"} <= {each["area"] for each in found["lab-a"]}, found["lab-a"]
        ((area, level, said),) = [(each["area"], each["level"], each["said"]) for each in found["lab-c"]]
        assert (area, level) == ("host", "bad")
        assert "Connection refused" in said
        status, found = checked("lab-b", its_program=tmp_path / "nothing")
        assert status == 2
        assert f"there is no {tmp_path / 'nothing'}" in found["lab-b"][0]["said"]
        nobody = f"127.0.0.1:{CLOSED}"
        status, found = checked("lab-b", more=f"coordinator: {nobody}\nexports: exports.yaml\n")
        assert status == 2
        bad = {each["subject"]: each for each in found["lab-b"] if each["level"] == "bad"}
        assert {"console server", "rails", "export", "coordinator"} <= bad.keys(), found["lab-b"]
        assert not missing_facts(bad["console server"]["said"], "nothing", f"{tmp_path}/exports.yaml")
        assert "systemctl start boardlab-console" in bad["console server"]["hint"]
        assert "systemctl start boardlab-coordinator" in bad["coordinator"]["hint"]
        for host in ("lab-a", "lab-b"):
            SshLink.to(host, runtime, environ).reset()
