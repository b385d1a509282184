"""A release that was read back well and does not boot: an eMMC with two boot partitions goes back to the one that it booted from before."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Protocol

from lab.errors import BoardlabError, ConfigurationError
from lab.provision.way import Plan, Way


class Selectable(Protocol):
    """What is needed of the board. medium: what it boots from next."""

    medium: str

    def select_medium(self, medium: str) -> None:
        """Boot from it at the next power on."""
        ...


def after(
    error: BoardlabError, board: Selectable, plan: Plan, way: Way, media: Sequence[str], say: Callable[[str], None]
) -> BoardlabError:
    """What failed, and which boot partition is active now: the medium, which was switched and has not booted since, is switched back.

    That is done whosever fault it was: a first stage that does not start may look like a wrong medium, since the ROM goes on to its next one.

    Args:
        plan: with what is kept. media: where U-Boot is looked for, in this order, unless the way says from where. say: takes a line for a person.

    Returns:
        an error of the same class, whose message says that, too.
    """
    medium, boots, kept = plan.target.medium, plan.spare.boots, plan.spare.kept
    what = "has what booted before" if kept in plan.target.booted else "it was set to boot from before"
    say(f"{medium}: {boots} has not booted as expected: switching back to {kept}")
    try:
        switch_back(board, plan, way, media)
    except BoardlabError as failed:
        return told(
            error,
            f"{medium} could not be switched back to {kept}, which {what}: [{failed.failure}] {failed} So {medium} is taken to "
            f"boot from {boots} still. Provision it again from another medium (`boot_from`) or with --from-nothing: that switches back before "
            "it writes",
        )
    rest = (
        f". The rest of {medium} has the new release, which the old U-Boot may not start"
        if any(step.place is None or step.place.hardware == "user" for step in plan.steps)
        else ""
    )
    if not plan.spare.bus and (plan.content.extcsd.bootbus or plan.target.untried):
        rest += f". How wide its bus is while it boots (bootbus) could not be read before, and stays as it was set for {boots}"
    return told(error, f"{medium} boots from {kept} again, which {what}; {boots} has what was written now{rest}")


def switch_back(board: Selectable, plan: Plan, way: Way, media: Sequence[str]) -> None:
    """Have the medium boot from where it booted before, from the first prompt that can be reached.

    Raises:
        BoardlabError: none of them could; the last that was tried says why.
    """
    last: BoardlabError = ConfigurationError("no medium of the board has a prompt that could be tried")
    for medium in dict.fromkeys(media):
        try:
            board.select_medium(medium)
            way.switch(plan.back)
        except BoardlabError as error:
            last = error
            if board.medium != medium:  # the way starts from a medium of its own, or no straps select this one
                break
        else:
            return
    raise last


def told(error: BoardlabError, what: str) -> BoardlabError:
    """The same error with a sentence more."""
    found = copy.copy(error)
    found.args = (f"{str(error).rstrip('.')}. Now {what}", *error.args[1:])
    return found
