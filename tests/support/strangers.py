"""A client of another user, for servers that must refuse it.

A test that runs as root starts one as `nobody`. Without root there is no other user to be had: then the server believes to
be somebody else's, and the client is the stranger.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab.virtual import ports

NOBODY = 65534
DEADLINE_S = 30.0
_AS_NOBODY = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
_TALK = "exec 3<>/dev/tcp/{}/{}; trap '' PIPE; cat >&3"  # bash, as nobody may not have our Python
_LISTEN = "; exec cat <&3"


@contextmanager
def another_user(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Who the stranger is for the servers of this process."""
    with monkeypatch.context() as patch:
        if os.getuid() == 0:
            yield NOBODY
        else:
            ours = os.getuid()
            patch.setattr(ports.os, "getuid", lambda: NOBODY)
            yield ours


def ask(address: str, said: bytes, *, leave: bool = False) -> bytes:
    """What the server at host:port answers a stranger who says this; b"" if it hangs up.

    Args:
        leave: go at once, as if an answer were of no use.
    """
    script = _TALK.format(*address.split(":")) + ("" if leave else _LISTEN)
    done = subprocess.run(
        ["bash", "-c", script],
        check=False,
        input=said,
        capture_output=True,
        timeout=DEADLINE_S,
        cwd="/",
        **(_AS_NOBODY if os.getuid() == 0 else {}),
    )
    return done.stdout
