"""Nights of a simulated board, and the words that each place must have for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from attrs import frozen

from support.atlength import either
from support.simnights import BOARD, SimNights, ago, nights
from support.simruns import planned

HISTORY: Final = 8  # nights without a change: as many as the judge needs
OLD, NEW = "11.01", "11.02"
SLOWER = planned("slow_unit", cycles="all", ms=600)  # a unit of systemd: +3.7 % of the boot
HALF = planned("slow_unit", cycles="all", ms=300)
HUNG = planned("hang_kernel", cycles="all")


@frozen
class Story:
    """Nights after the history.

    Attributes:
        play: measures them. worse: `lab judge run` of the last one ends with 1.
        headline: begin of that run's summary. titles: begins of the mails that are due then. state: of the board, and whose fault.
    """

    play: Callable[[SimNights], object]
    worse: bool
    headline: str
    titles: tuple[str, ...]
    state: tuple[str, str]


def history(folder: Path) -> None:
    """A lab's folder with the nights before all stories: no image's hash is known."""
    with nights(folder, 1, "", ago(HISTORY + 6)) as place:
        place.release = OLD
        for _ in range(HISTORY):
            place.night()


def played(folder: Path, story: Story) -> None:
    """Add a story's nights to the history in a folder."""
    with nights(folder, 1, "", ago(6)) as place:
        place.release = OLD
        story.play(place)


def _slower_label(place: SimNights) -> None:
    place.release, place.faults = NEW, [SLOWER]
    place.night()


def _slower_user_space(place: SimNights) -> None:
    place.distribution("Arago 2026.01")
    place.faults = [SLOWER]
    place.night()


def _known(place: SimNights) -> None:
    _slower_label(place)
    place.night()


def _unjudged(place: SimNights) -> None:
    place.release, place.faults = NEW, [SLOWER]
    place.unjudged()
    place.unjudged()
    place.night()


def _mended(place: SimNights) -> None:
    _slower_label(place)
    place.release, place.faults = "11.03", []
    place.night()


def _branches(place: SimNights) -> None:
    for build in range(3):  # a branch that is slower, measured in turn with the release line
        place.release, place.faults = f"dev-{build}", [HALF]
        place.night()
        place.release, place.faults = OLD, []
        place.night()
    place.release, place.faults = "dev-3", [SLOWER]
    place.night()


def _noise(place: SimNights) -> None:
    for _ in range(either(1, 20)):
        place.night()


def _failed(place: SimNights) -> None:
    place.faults = [HUNG]
    place.night()


_FIRST: Final = HISTORY + 1
_SLOWER: Final = (
    rf"Regression on {BOARD}: boot\.time \(sd\) \+3\.\d+ % ± \d\.\d+ % and 2 more numbers, since run {_FIRST}$"
)
LONG: Final = ("another label", "known", "unjudged", "branches")  # of the stories: they take the most nights
STORIES: Final = {
    "another label": Story(_slower_label, True, "Regression: 3 numbers", (_SLOWER,), ("worse", "release")),
    "user space": Story(_slower_user_space, True, "Regression: 3 numbers", (_SLOWER,), ("worse", "")),
    "known": Story(
        _known, False, f"Still worse since run {_FIRST}: boot.time sd +3.", (_SLOWER,), ("worse", "release")
    ),
    "unjudged": Story(_unjudged, True, "Regression: 3 numbers", (_SLOWER,), ("worse", "release")),
    "mended": Story(_mended, False, "Improvement: 3 numbers", (), ("free", "")),
    "branches": Story(
        _branches,
        True,
        "Regression: ",
        (
            rf"Regression on {BOARD}: boot\.time \(sd\) \+1\.\d+ % .*, since run {_FIRST}$",
            rf"Regression on {BOARD}: boot\.time \(sd\) \+1\.\d+ % .*, since run \d\d$",
        ),
        ("worse", ""),
    ),
    "noise": Story(_noise, False, "Nothing moved", (), ("free", "")),
    "failed": Story(
        _failed,
        True,
        "The only cycle that was tried failed",
        (rf"{BOARD}: release {OLD} does not boot: hang kernel, 3 of 3 attempts, since run {_FIRST}, ",),
        ("failed", "board"),
    ),
}
