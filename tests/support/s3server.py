"""moto's S3 server as a program on loopback, on a port that it finds itself."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

BUCKET = "lab"
START_S = 120
_SAYS = re.compile(r"Running on (http://127\.0\.0\.1:\d+)")


@contextmanager
def running_s3(program: Path, log: Path) -> Iterator[str]:
    """Its address; it has one bucket, and ends with the context."""
    with (
        log.open("wb") as said,
        subprocess.Popen([program, "-H", "127.0.0.1", "-p", "0"], stdout=said, stderr=said) as server,
    ):
        try:
            deadline = time.monotonic() + START_S
            while (found := _SAYS.search(log.read_text(errors="replace"))) is None:
                assert server.poll() is None, log.read_text(errors="replace")
                assert time.monotonic() < deadline
                time.sleep(0.05)
            requests.put(f"{found[1]}/{BUCKET}", timeout=START_S).raise_for_status()
            yield found[1]
        finally:
            server.terminate()
