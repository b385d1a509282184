"""An ssh that runs on this host what it is asked to; the program sees in AT which host was meant."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# A master is a file. While there is a file "away" beside the program, nothing can be run; where
# there is "hangs", the master does not answer, once.
_SSH = """#!/bin/sh
case "$*" in
    *' -M '*) while [ $# -gt 1 ]; do [ "$1" = -S ] && : > "$2"; shift; done; exit 0 ;;
    *'-O check'*) rm "$(dirname "$0")/hangs" 2> /dev/null && exec sleep 7777; exit 0 ;;
esac
while [ "$1" != -- ]; do host=$1; shift; done
[ -e "$(dirname "$0")/away" ] && { echo 'Connection closed' >&2; exit 255; }
shift
AT="$host" exec sh -c "$*"
"""


def played_ssh(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put it first in PATH; its folder."""
    folder.mkdir()
    (folder / "ssh").write_text(_SSH)
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder
