"""A run's unit reaches another host as docs/farm/several-hosts.md sets it up: its user has no home that it may read, and keys of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from support import realsshd
from support.labhost import LAB, USER, LabHost, farm, write

pytestmark = pytest.mark.soak

FARM_FILE, KEYS = "/etc/boardlab/keys.yaml", Path("/etc/boardlab/ssh")
PORT = 2222
NAME = "boardlab-nightly-1.service"
# What docs/farm/several-hosts.md has root do, for a host that is this one; without PAM, sshd takes a password of ! for a locked account.
SET_UP = f"""\
usermod --shell /bin/sh --password '*' {USER}
install -d -o {USER} -g {USER} -m 700 {KEYS}
cd {KEYS}
ssh-keygen -q -t ed25519 -N '' -f key
ssh-keygen -q -t ed25519 -N '' -f /run/host_key
echo "[127.0.0.1]:{PORT} $(cut -d' ' -f1,2 /run/host_key.pub)" > known_hosts
cat > config <<'END'
Host lab-2
  HostName 127.0.0.1
  Port {PORT}
Host *
  User {USER}
  IdentityFile {KEYS}/key
  IdentitiesOnly yes
  UserKnownHostsFile {KEYS}/known_hosts
  StrictHostKeyChecking yes
END
cat key.pub > authorized_keys
chown {USER}: * && chmod 600 *
id -u sshd 2>/dev/null || useradd --system --home-dir /run/sshd --shell /usr/sbin/nologin sshd
"""
SSHD_CONFIG = f"""\
Port {PORT}
ListenAddress 127.0.0.1
HostKey /run/host_key
PidFile none
UsePAM no
Match User {USER}
  AuthorizedKeysFile {KEYS}/authorized_keys
  PasswordAuthentication no
"""
SSHD = """\
[Service]
RuntimeDirectory=sshd
Environment=LD_LIBRARY_PATH={folder}
ExecStart={folder}/sshd -D -e -f /etc/boardlab/sshd_config
"""
REACH = """\
from lab.host.runtime import runtime_dir
from lab.host.ssh import SshLink

done = SshLink.to("lab-2", runtime_dir()).ran(["id", "-un"], 60)
print("it is", done.stdout, done.stderr)
"""


def test_a_run_reaches_another_host_by_the_keys_of_the_services(host: LabHost) -> None:
    machine = host.machine
    machine.run("sh", "-ec", SET_UP)
    write(machine, Path("/etc/boardlab/sshd_config"), SSHD_CONFIG)
    write(machine, Path("/etc/systemd/system/another-host.service"), SSHD.format(folder=realsshd._packages()))
    write(machine, LAB / "reach.py", REACH)
    write(machine, Path(FARM_FILE), yaml.safe_dump(farm() | {"ssh_config": str(KEYS / "config")}))
    machine.run(f"{LAB}/.venv/bin/lab", "farm", "units", FARM_FILE, "--farm", FARM_FILE, "--output", "/run/keys")
    made = machine.run("cat", f"/run/keys/{NAME}").stdout
    unit = re.sub(r"^ExecStart=.*$", f"ExecStart={LAB}/.venv/bin/python {LAB}/reach.py", made, flags=re.MULTILINE)
    write(machine, Path("/etc/systemd/system/reach.service"), unit)
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", "another-host.service")
    listens = ("sh", "-c", f"ss -Hltn 'sport = :{PORT}' | grep -q .")
    machine.wait(lambda: machine.run(*listens, check=False).returncode == 0, "sshd")
    machine.run("systemctl", "start", "reach.service")
    assert f"it is {USER}" in machine.run("journalctl", "-u", "reach.service", "-o", "cat").stdout
    ssh = [
        each for each in host.lab("doctor", "--farm", FARM_FILE, check=False).stdout.splitlines() if " ssh " in each
    ]
    assert [line.split()[0] for line in ssh] == ["ok"]
