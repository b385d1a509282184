"""What farm.yaml says of Buildbot: the program, who is told of a build, the hosts with their workers, and the boards on them."""

from __future__ import annotations

import re
from typing import Any, Final

from attrs import field, frozen, validators

from lab.farm import values

GITHUB_API: Final = "https://api.github.com"
GITLAB: Final = "https://gitlab.com"
FOR_PERSONS: Final = 4  # each fourth run of a host, and at least one
_USER: Final = re.compile(r"[\w.@-]{1,64}")
_REPOSITORY: Final = re.compile(r"[\w.-]+(/[\w.-]+)+")


def _repository(_instance: object, attribute: Any, value: str) -> None:
    if not _REPOSITORY.fullmatch(value):
        raise ValueError(f"{attribute.name}: {value!r}: expected OWNER/NAME, e.g. example/releases")


def _user(_instance: object, _attribute: Any, value: str) -> None:
    if not _USER.fullmatch(value):
        raise ValueError(f"users: {value!r}: expected the name that this person has in the lab, e.g. lena")


@frozen
class GitHub:
    """Where a commit's status is set. repository: OWNER/NAME. url: of the API. The token is the secret `github`."""

    repository: str = field(validator=_repository)
    url: str = field(default=GITHUB_API, validator=values.site)


@frozen
class GitLab:
    """Where a commit's status is set. repository: GROUP/NAME. url: of the server. The token is the secret `gitlab`."""

    repository: str = field(validator=_repository)
    url: str = field(default=GITLAB, validator=values.site)


@frozen
class Webhook:
    """Who gets a build's end as JSON. url: without passwords. token: whether the secret `webhook` is sent as bearer token."""

    url: str = field(validator=values.site)
    token: bool = False


@frozen
class Buildbot:
    """Buildbot, where it queues the runs. program: `buildbot`; its `buildbot-worker` is beside it.

    Attributes:
        www: address:port of its pages; workers: of the master for its workers; both know no TLS.
        parallel: runs at once on a host, of which some are for persons. attempts: how often a build is begun, when its worker or its master is lost or a person has the board.
        github, gitlab, webhook: who is told of builds; None: nobody.
        users: persons who start builds; each has a login, and measures as that person.
    """

    program: str = field(validator=values.program)
    www: str = field(default="127.0.0.1:8010", validator=values.loopback)
    workers: str = field(default="127.0.0.1:9989", validator=values.loopback)
    parallel: int = field(default=16, validator=validators.ge(1))
    attempts: int = field(default=6, validator=validators.ge(1))
    github: GitHub | None = None
    gitlab: GitLab | None = None
    webhook: Webhook | None = None
    users: list[str] = field(factory=list, validator=validators.deep_iterable(_user))

    @property
    def scheduled(self) -> int:
        """Builds of schedules at once on a host; some only wait, for a board or for room, and must not keep out what a person starts."""
        return max(1, self.parallel - max(1, self.parallel // FOR_PERSONS))

    @property
    def most(self) -> int:
        """Builds at once on a host."""
        return max(self.parallel, self.scheduled + 1)

    @property
    def secrets(self) -> list[str]:
        """Names of the files that must be in the master's folder of secrets."""
        found = [name for name, told in (("github", self.github), ("gitlab", self.gitlab)) if told is not None]
        return [*found, *(["webhook"] if self.webhook is not None and self.webhook.token else [])]


@frozen
class HostEntry:
    """A host with boards; Buildbot's worker there, and its exporter of places, have its name.

    Attributes:
        exporter: where its exporter for Prometheus listens, address:port; empty: as `exporter` says for all.
        scrape: host:port at which Prometheus, on the first host, reaches it; empty: there, or by a port on loopback that ssh forwards.
    """

    name: str = field(validator=values.name)
    exporter: str = field(default="", validator=values.word)
    scrape: str = field(default="", validator=values.word)


@frozen
class BoardEntry:
    """A board of the farm.

    Attributes:
        name: as its env names it. host: where it is plugged in; empty: the only one.
        hub: of its USB devices: one release at a time is put on boards of the same hub.
    """

    name: str = field(validator=values.word)
    env: str = field(validator=values.quotable)
    host: str = field(default="", validator=values.word)
    hub: str = field(default="", validator=values.word)
