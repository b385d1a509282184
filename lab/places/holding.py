"""A labgrid place for as long as a job measures on it.

A job acquires under a name of its own, `HOST/PERSON-STORE-jNUMBER`: two jobs of one person are two users for labgrid, and whoever
finds the place held can ask the store whether that job still lives. Numbers are of one store, whose tag is in the name. labgrid's own acquisitions never expire.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from attrs import frozen

from exporters.farm.coordinator import Coordinator
from lab.errors import ConfigurationError, LabTransientError

BUSY: Final = "place_busy"
PORT: Final = 20408  # labgrid's
_LIMIT_S: Final = 60.0
_OF_A_JOB: Final = re.compile(r".+-([0-9a-f]{8})-j(\d+)")
_log = logging.getLogger(__name__)


@frozen
class PlaceUser:
    """Who acquires, as labgrid has it."""

    host: str
    name: str

    def __str__(self) -> str:
        """As labgrid shows it."""
        return f"{self.host}/{self.name}"

    @property
    def environ(self) -> dict[str, str]:
        """What makes labgrid's programs, and pytest, this user."""
        return {"LG_HOSTNAME": self.host, "LG_USERNAME": self.name}


def job_user(person: str, called: str, store: str) -> PlaceUser:
    """A job of a person on this host; `store`: names the results store whose job it is."""
    tag = hashlib.sha256(store.encode()).hexdigest()[:8]
    return PlaceUser(socket.gethostname(), f"{person}-{tag}-{called}".replace("/", "-"))


def stock_user(person: str, environ: Mapping[str, str] = os.environ) -> PlaceUser:
    """Who a person on this host is for labgrid's own programs."""
    return PlaceUser(environ.get("LG_HOSTNAME", socket.gethostname()), environ.get("LG_USERNAME", person))


def with_port(address: str) -> str:
    """A coordinator's address with labgrid's port where it has none."""
    return address if re.search(r":\d+$", address) else f"{address}:{PORT}"


@frozen
class Place:
    """A place of a coordinator."""

    name: str
    coordinator: str

    @contextmanager
    def held(self, user: PlaceUser, person: PlaceUser, is_over: Callable[[int], bool]) -> Iterator[dict[str, str]]:
        """Hold it for this block; what to add to the environment of whoever measures.

        Args:
            person: whose acquisition is good enough: it is used as it is, and stays.
            is_over: whether a job of this store, by its number, has ended or died.

        Raises:
            LabTransientError: somebody else has it (`place_busy`), or the coordinator does not answer.
            ConfigurationError: labgrid refuses, e.g. since there is no such place.
        """
        holder = Coordinator(self.coordinator).holder(self.name)
        if holder == str(person):
            yield person.environ
            return
        if holder and holder != str(user):
            if not self._is_left(holder, user, is_over):
                raise self._busy(holder)
            _log.warning("place %s: %s has died without giving it back; it is released", self.name, holder)
            self._client(user, "release-from", holder)
            holder = ""
        if not holder:
            self._client(user, "acquire")
        try:
            yield user.environ
        finally:
            try:
                self._client(user, "release")
            except (ConfigurationError, LabTransientError) as error:  # what was measured is measured
                _log.warning("place %s could not be given back: %s", self.name, error)

    @staticmethod
    def _is_left(holder: str, user: PlaceUser, is_over: Callable[[int], bool]) -> bool:
        """Whether a job of this host and of the store of `user`'s had it, and has ended."""
        host, _, name = holder.partition("/")
        job, ours = _OF_A_JOB.fullmatch(name), _OF_A_JOB.fullmatch(user.name)
        if job is None or ours is None or (host, job[1]) != (user.host, ours[1]):
            return False
        return is_over(int(job[2]))

    def _busy(self, holder: str) -> LabTransientError:
        return LabTransientError(
            f"labgrid's place {self.name} is held by {holder}: wait until it is released (labgrid-client -p {self.name} release, by them)",
            failure=BUSY,
        )

    def _client(self, user: PlaceUser, *words: str) -> None:
        command = [str(Path(sys.executable).with_name("labgrid-client")), "-p", self.name, *words]
        environ = {**os.environ, **user.environ, "LG_COORDINATOR": self.coordinator}
        try:
            done = subprocess.run(
                command,
                env=environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise LabTransientError(
                f"labgrid's coordinator at {self.coordinator} does not answer within {_LIMIT_S:g} s",
                failure="coordinator_unreachable",
            ) from error
        if done.returncode == 0:
            return
        said = (done.stdout + done.stderr).strip().replace("\n", "; ")
        holder = Coordinator(self.coordinator).holder(self.name)
        if words == ("acquire",) and holder and holder != str(user):
            raise self._busy(holder)  # somebody was faster
        raise ConfigurationError(
            f"labgrid-client -p {self.name} {' '.join(words)}: {said}; mend the place, or RemotePlace in the env"
        )
