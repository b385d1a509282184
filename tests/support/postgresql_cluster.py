"""A throw-away PostgreSQL server on loopback, from the distribution's package."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from attrs import define, field

from lab.virtual.ports import free_port

PASSWORD: Final = "the-password-of-a-test"  # noqa: S105 - of a server that lives for one test session
_PROGRAMS: Final = Path("/usr/lib/postgresql")
_PORTS_TRIED: Final = 5


@define
class Cluster:
    """A server with one role, `lab`, which may create databases."""

    folder: Path
    programs: Path
    fsync: bool = False  # tests lose nothing that matters
    port: int = field(default=0, init=False)

    @property
    def url(self) -> str:
        """Of the database `postgres`."""
        return f"postgresql://lab:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def create(self) -> None:
        """Make the server's files; only who knows the password gets in."""
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        if os.getuid() == 0:
            shutil.chown(secret, "postgres")
        access = ["--username=lab", "--auth=scram-sha-256", f"--pwfile={secret}"]
        self._run("initdb", *access, "--no-sync", "--encoding=UTF8", "--locale=C", f"--pgdata={self._data}")

    def start(self) -> None:
        """Start on a free port, the same as before where there was one, and wait until it answers."""
        for _ in range(_PORTS_TRIED):
            port = self.port or free_port()
            options = f"-p {port} -c listen_addresses=127.0.0.1 -k {self.folder} -c fsync={self.fsync}"
            try:
                self._run("pg_ctl", "start", "--wait", "-D", self._data, "-o", options, "-l", str(self.folder / "log"))
            except subprocess.CalledProcessError:
                continue  # somebody else took the port in between
            self.port = port
            return
        raise AssertionError(f"PostgreSQL does not start: {(self.folder / 'log').read_text()}")

    def stop(self) -> None:
        """Stop at once, as if its machine lost power."""
        self._run("pg_ctl", "stop", "--wait", "--mode=immediate", "-D", self._data)

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def _run(self, program: str, *arguments: str) -> None:
        user = "postgres" if os.getuid() == 0 else None  # the server refuses to be root
        command = [str(self.programs / program), *arguments]
        subprocess.run(command, check=True, user=user, cwd="/", stdout=subprocess.DEVNULL)


@contextmanager
def cluster(*, fsync: bool = False) -> Iterator[Cluster]:
    """A running server, gone afterwards with everything in it."""
    versions = sorted(_PROGRAMS.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not versions:
        raise RuntimeError(f"no PostgreSQL server in {_PROGRAMS}; install it: apt-get install postgresql")
    with tempfile.TemporaryDirectory(prefix="lab-pg-") as name:
        folder = Path(name)
        if os.getuid() == 0:
            os.chown(folder, *pwd.getpwnam("postgres")[2:4])
        server = Cluster(folder, versions[-1].parent, fsync)
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop()
