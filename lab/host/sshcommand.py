"""A command on another host, through ssh, as the user whom ssh's configuration says; it never asks anything."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final

from lab.errors import ConfigurationError, LabTransientError

CONFIG_VARIABLE: Final = "BOARDLAB_SSH_CONFIG"  # names another configuration than the user's own
CONNECT_S: Final = 15
REFUSED: Final = 255  # ssh's own exit status, ssh(1)


def run(
    host: str, words: Sequence[str], folder: str, limit_s: float, environ: Mapping[str, str] = os.environ
) -> subprocess.CompletedProcess[str]:
    """Run it in a folder there, and wait for its end.

    Raises:
        ConfigurationError: no name for a host, or there is no ssh here.
        LabTransientError: the host does not answer, refuses, or is not done in time; the message is ssh's.
    """
    if not host or host.startswith("-") or not host.isprintable():
        raise ConfigurationError(f"{host!r} is no name of a host for ssh")
    config = ["-F", environ[CONFIG_VARIABLE]] if environ.get(CONFIG_VARIABLE) else []
    options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_S}", "-o", "ServerAliveInterval=5"]
    there = f"cd {shlex.quote(folder)} && {shlex.join(words)}"
    try:
        done = subprocess.run(
            ["ssh", *config, *options, host, there],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
        )
    except FileNotFoundError as error:
        raise ConfigurationError("ssh is not installed: apt-get install openssh-client") from error
    except subprocess.TimeoutExpired as error:
        raise LabTransientError(f"was not done within {limit_s:g} s", failure="console_link") from error
    if done.returncode == REFUSED:
        raise LabTransientError(
            "; ".join(done.stderr.split("\n")).strip("; \r") or "does not answer", failure="console_link"
        )
    return done
