"""Are the boards' places there? farm.yaml names environments, these name places, labgrid's coordinator knows places and what is exported."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import frozen

from lab.env import envfile
from lab.errors import BoardlabError
from lab.farm.config import HERE, Farm
from lab.farm.placing import RESERVATION, place_of

if TYPE_CHECKING:
    from exporters.farm.coordinator import Coordinator

ANSWER_S: Final = 5.0


@frozen
class _Named:
    """A board's place, as its environment names it. coordinator: that of the environment; empty: it names none."""

    board: str
    env: str
    place: str
    coordinator: str


def problems(farm: Farm) -> list[str]:
    """Why a run would not get its board's place: the coordinator does not answer, or it knows the place otherwise than the environment."""
    if not farm.coordinator:
        return []
    from exporters.farm.coordinator import Coordinator  # noqa: PLC0415 - gRPC takes a while to import
    from lab.places.holding import with_port  # noqa: PLC0415

    coordinator = Coordinator(with_port(farm.coordinator))
    try:
        known = sorted(coordinator.holders(ANSWER_S))
        return [problem for each in _named(farm) for problem in _wrong(each, coordinator, known)]
    except BoardlabError as error:
        where = {"": "its host", HERE: "this host"}.get(farm.coordinator_at, farm.coordinator_at)
        return [
            f"coordinator: {error}; on {where}: systemctl start boardlab-coordinator; what leads there from here (ssh -N -L, WireGuard) has to be up"
        ]


def _named(farm: Farm) -> Iterator[_Named]:
    for board, env in farm.environments.items():
        try:
            path = envfile.find(env, Path(farm.directory))
            place, its = place_of(path), envfile.coordinator_of(path)
        except BoardlabError:  # `lab farm check` says of the environment itself what is wrong with it
            continue
        if place not in {"", RESERVATION}:
            yield _Named(board, env, place, its)


def _wrong(named: _Named, coordinator: Coordinator, known: list[str]) -> Iterator[str]:
    """Raises LabTransientError: the coordinator does not answer."""
    from lab.places.holding import may_be_one, with_port  # noqa: PLC0415 - gRPC takes a while to import

    where = f"boards: {named.board}: {named.env}"
    if named.coordinator and not may_be_one(with_port(named.coordinator), coordinator.address):
        yield (
            f"{where}: its coordinator is {named.coordinator}, and farm.yaml's {coordinator.address}: the janitor looks after places of the "
            "latter only; let both name the same one"
        )
        return
    if named.place not in known:
        close = difflib.get_close_matches(named.place, known, n=1)
        meant = f" (is {close[0]!r} meant?)" if close else ""
        yield (
            f"{where}: no place {named.place!r} at the coordinator {coordinator.address}{meant}: mend `RemotePlace` there, or make the place: "
            f"labgrid-client -p {named.place} create, then add-match HOST/GROUP/CLASS"
        )
        return
    for match in coordinator.unmatched(named.place):
        yield (
            f"{where}: place {named.place!r} wants {match}, and nobody exports that now: mend the group's name in `exports` of its host, or the "
            f"match (labgrid-client -p {named.place} show), or start boardlab-export there"
        )
