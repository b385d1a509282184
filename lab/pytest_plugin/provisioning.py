"""`--lab-provision`: the board gets its release before anything is measured."""

from __future__ import annotations

from collections.abc import Sequence
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
    label = config.option.lab_release
    if label and label != release.name:
        raise ConfigurationError(
            f"--lab-release {label}: --lab-provision puts {release.name} on the board, and that is the label: leave "
            "--lab-release out"
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
    strategy, job = config.stash[STRATEGY_KEY], config.stash.get(JOB_KEY, None)
    provisions = ProvisionBook(config.stash[STORE_KEY]).current(strategy.board)
    media = [name for name in _media(config, strategy) if not _is_done(release, name, provisions.get(name), job)]
    if not media:
        return
    medium = strategy.medium
    strategy.putting = _provisioner(config, release, media)
    with ending_off(strategy):
        strategy.transition("provisioned")
        strategy.select_medium(medium)


def check_first_boot(config: pytest.Config) -> None:
    """Make sure that `first_boot` has a release, and a strategy that can.

    Raises:
        ConfigurationError: it has not.
    """
    if config.stash.get(RELEASE_KEY, None) is None or not hasattr(config.stash[STRATEGY_KEY], "first_boot"):
        raise ConfigurationError(
            'start="first" needs the release that is written before each cycle, --lab-provision FILE, and a '
            "BoardStrategy of this boardlab: `lab init` writes it"
        )


def first_boot(config: pytest.Config) -> None:
    """Put the session's release on the board's medium anew; the board runs its first boot then.

    Raises:
        BoardlabError: as of lab.provision.provisioning.Provisioner.put.
    """
    strategy = config.stash[STRATEGY_KEY]
    expected = strategy.expected  # the same release
    strategy.putting = _provisioner(config, config.stash[RELEASE_KEY], [strategy.medium])
    strategy.first_boot()
    strategy.expected = expected


def _provisioner(config: pytest.Config, release: Release, media: Sequence[str]) -> Provisioner:
    write, job = writer(config), config.stash.get(JOB_KEY, None)
    write(f"provisioning {config.stash[STRATEGY_KEY].board} with {release.name}: {', '.join(media)}")
    log = ProvisionBook(config.stash[STORE_KEY])
    return Provisioner(release, media, ProgressPrinter(write), write, log, job, process.person())


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


def _is_done(release: Release, medium: str, provision_record: Provision | None, job: int | None) -> bool:
    """Return whether this job has put the release there.

    Its suites, and reruns of the judge, share one write.
    """
    if provision_record is None or job is None or medium not in release.media:
        return False
    same = (provision_record.release, provision_record.content) == (
        release.name,
        content_digest(release.media[medium]),
    )
    return same and provision_record.job_id == job and provision_record.state == "booted"
