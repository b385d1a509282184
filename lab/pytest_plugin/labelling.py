"""A run is called what is on the board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from labgrid.pytestplugin.hooks import LABGRID_ENV_KEY

from lab.provision import labels
from lab.results import Run, Store
from lab.results.provisions import Provision, ProvisionBook


def media_of(plan: Mapping[str, Any], strategy: Any) -> list[str]:
    """What a run of that plan boots from."""
    return list(plan.get("media") or [plan.get("medium") or strategy.medium])


def label(
    config: pytest.Config, store: Store, strategy: Any, media: Sequence[str]
) -> tuple[str, dict[str, dict[str, object]]]:
    """The label of a new run that boots from these media, and what was provisioned there, for its provenance.

    Raises:
        ConfigurationError: `--lab-release` says something else; the media hold different releases, or one was not written whole.
    """
    known = ProvisionBook(store).current(strategy.board)
    default = str(config.stash[LABGRID_ENV_KEY].config.get_option("release", "unreleased"))
    found = labels.label(strategy.board, media, known, config.option.lab_release or "", default)
    _expect(strategy, media, known)
    return found, labels.document(media, known)


def check_resumed(store: Store, strategy: Any, media: Sequence[str], run: Run) -> bool:
    """Make sure that the software of a run that is resumed is still there; returns whether boardlab put it there.

    Raises:
        ConfigurationError: something else was provisioned since.
    """
    known = ProvisionBook(store).current(strategy.board)
    labels.check_resumed(strategy.board, media, known, run.release, run.id)
    _expect(strategy, media, known)
    return any(medium in known for medium in media)


def _expect(strategy: Any, media: Sequence[str], known: dict[str, Provision]) -> None:
    """Each boot of the session is compared with the boot after provisioning."""
    strategy.expected = {
        medium: dict(known[medium].software) for medium in media if medium in known and known[medium].is_on_it
    }
