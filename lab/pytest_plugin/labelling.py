"""The label of a session's run: the release that was seen to boot from the run's media."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from labgrid.pytestplugin.hooks import LABGRID_ENV_KEY

from lab.provision import labels
from lab.provision.history import Provision, ProvisionBook
from lab.provision.provisioning import first_boot
from lab.pytest_plugin.refusing import ending_off
from lab.results import Run, Store


def media_of(plan: Mapping[str, Any], strategy: Any) -> list[str]:
    """What a run of that plan boots from."""
    return list(plan.get("media") or [plan.get("medium") or strategy.medium])


def label(
    config: pytest.Config, store: Store, strategy: Any, media: Sequence[str], write: Callable[[str], None]
) -> tuple[str, dict[str, dict[str, object]]]:
    """The label of a new run that boots from these media, and what was provisioned there, for its provenance.

    Args:
        write: takes lines for a person.

    Raises:
        ConfigurationError: `--lab-release` says something else; the media hold different releases, or one was not written whole.
        pytest.exit.Exception: a medium that had never booted does not boot, or boots another release.
    """
    known = _known(store, strategy, media, write)
    default = str(config.stash[LABGRID_ENV_KEY].config.get_option("release", "unreleased"))
    found = labels.label(strategy.board, media, known, config.option.lab_release or "", default)
    _expect(strategy, media, known)
    return found, labels.document(media, known)


def check_resumed(store: Store, strategy: Any, media: Sequence[str], run: Run, write: Callable[[str], None]) -> bool:
    """Make sure that the software of a run that is resumed is still there; returns whether boardlab put it there.

    Raises:
        ConfigurationError: something else was provisioned since.
        pytest.exit.Exception: as of `label`.
    """
    known = _known(store, strategy, media, write)
    labels.check_resumed(strategy.board, media, known, run.release, run.id)
    _expect(strategy, media, known)
    return any(medium in known for medium in media)


def _known(store: Store, strategy: Any, media: Sequence[str], write: Callable[[str], None]) -> dict[str, Provision]:
    """What is on the board; of these media, one that was written and has never booted is booted and compared first."""
    book = ProvisionBook(store)
    known = book.current(strategy.board)
    untried = [
        known[medium] for medium in dict.fromkeys(media) if medium in known and known[medium].state == "written"
    ]
    if not untried:
        return known
    selected = strategy.medium
    with ending_off(strategy):
        for each in untried:
            first_boot(strategy, each, book, write)
        strategy.transition("off")
    strategy.select_medium(selected)
    return book.current(strategy.board)


def _expect(strategy: Any, media: Sequence[str], known: dict[str, Provision]) -> None:
    """Each boot of the session is compared with the boot after provisioning."""
    strategy.expected = {
        medium: dict(known[medium].software) for medium in media if medium in known and known[medium].is_on_it
    }
