"""Labels of runs on boards that boardlab provisioned: the release's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.errors import ConfigurationError
from lab.provision.history import Provision

_BY_HAND = "if it was written by hand since: lab provision --forget --env ENV --medium"


def provisioned(board: str, media: Sequence[str], known: Mapping[str, Provision]) -> str:
    """Return the release on the media that a run boots from.

    Empty: boardlab wrote none of them.

    Raises:
        ConfigurationError: a release was put on one of them and was not seen to boot from it, or they hold different
            releases.
    """
    releases: dict[str, str] = {}
    for medium in media:
        found = known.get(medium)
        if found is None:
            continue
        if not found.is_on_it:
            raise ConfigurationError(
                f"{medium} of {board} holds no release that is known, so a number from it would have no label: {_why(found)}. Provision it "
                f"again (lab provision); {_BY_HAND} {medium}"
            )
        releases[medium] = found.release
    if len(set(releases.values())) > 1 or (releases and len(releases) < len(set(media))):
        on = ", ".join(f"{medium} {releases.get(medium, 'something that boardlab did not write')}" for medium in media)
        raise ConfigurationError(
            f"{board} has different releases on its media ({on}), and a run has one: choose with --medium, or provision all of them"
        )
    return next(iter(releases.values()), "")


def _why(found: Provision) -> str:
    match found.state:
        case "failed":
            return f"{found.release} was put there and failed: {found.message.rstrip('.')}"
        case "written":
            return f"{found.release} was written there and has never booted"
        case _:
            return f"the write of {found.release} was ended in the middle"


def label(board: str, media: Sequence[str], known: Mapping[str, Provision], given: str, default: str) -> str:
    """The label of a new run.

    Args:
        media: that the run boots from. known: of `ProvisionBook.current`.
        given: by an option; empty: not given. default: of the environment.

    Raises:
        ConfigurationError: `given` is not what was provisioned; or as of `provisioned`.
    """
    on_it = provisioned(board, media, known)
    if on_it and given and given != on_it:
        raise ConfigurationError(
            f"release {given}: {board} was provisioned with {on_it} on {', '.join(media)}, and a run's label is what is on the board. "
            f"Leave the release out, or put {given} there: lab provision --release FILE; {_BY_HAND} {media[0]}"
        )
    return on_it or given or default


def check_resumed(board: str, media: Sequence[str], known: Mapping[str, Provision], release: str, run_id: int) -> None:
    """Make sure that a resumed run's software is still there.

    Raises:
        ConfigurationError: the board was provisioned with another release since; or as of `provisioned`.
    """
    on_it = provisioned(board, media, known)
    if on_it and on_it != release:
        raise ConfigurationError(
            f"run {run_id} is of release {release!r}, and {board} was provisioned with {on_it!r} since: provision {release!r} again and "
            "resume it then, or begin a new run"
        )


def document(media: Sequence[str], known: Mapping[str, Provision]) -> dict[str, dict[str, object]]:
    """For a run's provenance: medium -> what was provisioned there."""
    return {
        medium: {"release": each.release, "content": each.content, "way": each.way, "software": dict(each.software)}
        for medium in media
        if (each := known.get(medium)) is not None and each.is_on_it
    }
