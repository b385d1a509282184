"""`--lab-provision`: the board gets its release before anything is measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from lab.errors import ConfigurationError
from lab.host import process
from lab.provision.history import Provision, ProvisionBook
from lab.provision.provisioning import ProgressPrinter, Provisioner, content_digest
from lab.provision.release import Release
from lab.provision.releasefile import find
from lab.pytest_plugin.runs import ITEMS_KEY, JOB_KEY, MEDIA_KEY, STORE_KEY, STRATEGY_KEY, chosen, writer
from lab.pytest_plugin.session_rules import ending_off, measures

RELEASE_KEY = pytest.StashKey[Release]()
_BOOT: Final = "boot"


def choose(config: pytest.Config, board_type: str) -> None:
    """Read the file of `--lab-provision`; its name labels the runs.

    Raises:
        ConfigurationError: there is no such file, it is wrong, or `--lab-release` says something else.
    """
    if not config.option.lab_provision:
        return
    release = find(config.option.lab_provision, board_type, Path.cwd())
    given = config.option.lab_release
    if given and given != release.name:
        raise ConfigurationError(
            f"--lab-release {given}: --lab-provision puts {release.name} on the board, and that is the label: leave --lab-release out"
        )
    config.stash[RELEASE_KEY], config.option.lab_release = release, release.name


def provision(config: pytest.Config) -> None:
    """Put the release on the session's media, once per job.

    Raises:
        ConfigurationError: it cannot or must not be done; nothing was written.
        pytest.exit.Exception: it failed; the board is off.
    """
    release = config.stash.get(RELEASE_KEY, None)
    if release is None:
        return
    store, strategy = config.stash[STORE_KEY], config.stash[STRATEGY_KEY]
    book, job, write = ProvisionBook(store), config.stash.get(JOB_KEY, None), writer(config)
    known = book.current(strategy.board)
    media = [name for name in _media(config, strategy) if not _is_done(release, name, known.get(name), job)]
    if not media:
        return
    write(f"provisioning {strategy.board} with {release.name}: {', '.join(media)}")
    medium = strategy.medium
    strategy.putting = Provisioner(release, media, ProgressPrinter(write), write, book, job, process.person())
    with ending_off(strategy):
        strategy.transition("provisioned")
        strategy.select_medium(medium)


def _media(config: pytest.Config, strategy: Any) -> list[str]:
    """Media that the session boots from."""
    kinds = {kind for item in config.stash[ITEMS_KEY] if (kind := measures(item))}
    boots = chosen(config, "boot_measurer", "boot_medium", config.stash[MEDIA_KEY]) if _BOOT in kinds else []
    others = (
        [config.option.lab_medium[0].split(",")[0] if config.option.lab_medium else strategy.medium]
        if kinds - {_BOOT}
        else []
    )
    return list(dict.fromkeys([*boots, *others]))


def _is_done(release: Release, medium: str, known: Provision | None, job: int | None) -> bool:
    """Return whether this job has put the release there.

    Its suites, and reruns of the judge, share one write.
    """
    if known is None or job is None or medium not in release.media:
        return False
    same = (known.release, known.content) == (release.name, content_digest(release.media[medium]))
    return same and known.job_id == job and known.state == "booted"
