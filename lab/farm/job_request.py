"""The suites of a job, and checks of its options and environment before it starts."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from lab import boards
from lab.benchmarks import lab_site
from lab.benchmarks.section import Section
from lab.benchmarks.sections import every
from lab.boards import BoardType
from lab.env import envfile
from lab.errors import BoardlabError, ConfigurationError
from lab.run import options
from lab.run.options import Value

_RAILS = "RailsDriver"
_STRAPS = ("BootModeDriver", "AutomationBootModeDriver")


def problems(tests: Path, suites: Sequence[str], chosen_options: Mapping[str, Value], env: Path) -> Iterator[str]:
    """Yield a sentence for each part of a job that cannot work.

    These are unknown suites, options without effect, and options that the board type or the environment does not
    support.

    Args:
        tests: the folder with the suites.
        suites: the suites' names, after `expand`.
        chosen_options: the options, as `lab.run.options.read` returns them.
        env: the environment file of the board.
    """
    try:
        for suite in suites:
            files(tests, suite)
        board_type = boards.load(str(envfile.arguments_of(env, "BoardStrategy").get("board_type", "")))
        scratch = lab_site.of_options(
            envfile.target_options(env).get(lab_site.OPTION), f"{env}: targets.main.options.{lab_site.OPTION}"
        ).scratch
    except BoardlabError as error:
        yield str(error)
        return
    kinds = [kind(suite) for suite in suites]
    for option in options.without_effect(chosen_options, kinds):
        needed = " or ".join(option.kinds)
        yield (
            f"{option.name}: it affects only {needed}, and the job runs only {', '.join(suites)}: leave it out, or "
            "add a suite"
        )
    yield from _unknown("medium", _names(chosen_options, "medium"), board_type.media, board_type)
    yield from _unselectable(_names(chosen_options, "medium"), board_type, env)
    yield from _unknown("mode", _names(chosen_options, "mode"), board_type.sleep, board_type)
    if chosen_options.get("energy") and not envfile.arguments_of(env, _RAILS):
        yield f"energy: nothing measures the board's rails: add RailSensors and a {_RAILS} to {env}"
    yield from _wrong_sections(chosen_options, board_type)
    if chosen_options.get("destructive"):
        yield from _without_scratch(_names(chosen_options, "sections"), board_type, scratch, env)


def _unselectable(media: Iterable[str], board_type: BoardType, env: Path) -> Iterator[str]:
    """Yield the media that the lab cannot switch to.

    Without a driver for its boot straps, a board boots only from the medium that its switches are set to.
    """
    if any(envfile.arguments_of(env, driver) for driver in _STRAPS):
        return
    set_medium = str(envfile.arguments_of(env, "BoardStrategy").get("medium") or next(iter(board_type.media)))
    for medium in media:
        if medium in board_type.media and medium != set_medium:
            yield (
                f"medium: {medium}: {env} has no {_STRAPS[0]}, and the board's switches are taken to be set to "
                f"{set_medium}: leave it out, or set the switches and name their medium in BoardStrategy (medium)"
            )


def _wrong_sections(chosen_options: Mapping[str, Value], board_type: BoardType) -> Iterator[str]:
    section_of = {section.name: section for section in every()}
    for name in _names(chosen_options, "sections"):
        if name not in section_of:
            close = difflib.get_close_matches(name, list(section_of), n=1)
            hint = f"did you mean {close[0]}?" if close else "docs/benchmarks.md lists them"
            yield f"sections: there is no section {name!r}; {hint}"
        elif not section_of[name].fits(board_type):
            yield f"sections: {name}: {board_type.name} does not have what it measures; leave it out"
        elif section_of[name].overwrites and not chosen_options.get("destructive"):
            yield (
                f"sections: {name} overwrites the scratch medium {section_of[name].overwrites}: allow it with the "
                "option `destructive`, or leave it out"
            )


def _without_scratch(
    names: Sequence[str], board_type: BoardType, scratch: Mapping[str, str], env: Path
) -> Iterator[str]:
    """Yield the scratch media that destructive sections need and the environment does not name.

    Args:
        names: the chosen sections; empty: all that fit the board, and then one scratch medium suffices.
        scratch: the scratch media of the environment, by name.
    """
    place = f"{env}: targets.main.options.{lab_site.OPTION}.scratch"
    destructive = [s for s in every() if s.overwrites and s.fits(board_type)]
    needed: dict[str, Section] = {
        s.overwrites: s for s in destructive if s.name in names and s.overwrites not in scratch
    }
    for medium, section in needed.items():
        yield f"destructive: {section.name} needs a scratch medium {medium!r}: name it at {place} (docs/benchmarks.md)"
    if not names and destructive and not any(s.overwrites in scratch for s in destructive):
        media = ", ".join(dict.fromkeys(s.overwrites for s in destructive))
        yield f"destructive: nothing may be overwritten: name one of {media} at {place} (docs/benchmarks.md)"


def _unknown(option: str, names: Iterable[str], choices: Iterable[str], board_type: BoardType) -> Iterator[str]:
    for name in names:
        if name not in choices:
            yield f"{option}: {name}: {board_type.name} has {', '.join(choices) or 'none'}"


def _names(chosen_options: Mapping[str, Value], option: str) -> list[str]:
    value = chosen_options.get(option)
    return value if isinstance(value, list) else []


GUIDE: Final = ("boot", "low_power", "sections")  # in this order: boots come first, since they need no settled board
SECTIONS: Final = "sections"
_RUNS_OF_THEIR_OWN: Final = ("boot", "low_power")  # each has a test file and a kind of runs with its name


def expand(names: Iterable[str]) -> tuple[str, ...]:
    """Return a job's suites without duplicates; `guide` becomes three."""
    suites: dict[str, None] = {}
    for name in names:
        suites.update(dict.fromkeys(GUIDE if name == "guide" else (name,)))
    return tuple(suites)


def kind(name: str) -> str:
    """Return the kind that a suite's runs have in the store."""
    return name if name in _RUNS_OF_THEIR_OWN else SECTIONS


def files(tests: Path, name: str) -> tuple[Path, ...]:
    """Return the test files of a suite.

    Each file `test_<name>.py` is a suite; the suite `sections` has all files that share a run.

    Args:
        tests: the folder with the suites.

    Raises:
        ConfigurationError: the folder has no such suite.
    """
    chapters = {path.stem.removeprefix("test_"): path for path in sorted(tests.glob("test_*.py"))}
    suites: dict[str, tuple[Path, ...]] = {
        suite: (chapters.pop(suite),) for suite in _RUNS_OF_THEIR_OWN if suite in chapters
    }
    suites |= {chapter: (path,) for chapter, path in chapters.items()}
    if chapters:
        suites[SECTIONS] = tuple(chapters.values())
    if name in suites:
        return suites[name]
    choices = (
        f"there are: {', '.join(['guide', *sorted(suites)])}"
        if suites
        else f"{tests} has none; name their folder with --tests"
    )
    raise ConfigurationError(f"no suite {name!r}; {choices}")
