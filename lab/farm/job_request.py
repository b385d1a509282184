"""Checks of an order's suites, options and environment before it starts."""

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
    """Find unknown suites, unused options, and options beyond the board or environment.

    Args:
        tests: the folder with the suites.
        suites: suites, expanded.
        chosen_options: of `lab.run.options.read`.
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
    """Check media against the only one of a board without driven straps."""
    if any(envfile.arguments_of(env, driver) for driver in _STRAPS):
        return
    there = str(envfile.arguments_of(env, "BoardStrategy").get("medium") or next(iter(board_type.media)))
    for medium in media:
        if medium in board_type.media and medium != there:
            yield (
                f"medium: {medium}: {env} has no {_STRAPS[0]}, and the board's switches are taken to be set to "
                f"{there}: leave it out, or set the switches and name their medium in BoardStrategy (medium)"
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
    """Check that destructive sections have the scratch medium that they need."""
    place = f"{env}: targets.main.options.{lab_site.OPTION}.scratch"
    may = [s for s in every() if s.overwrites and s.fits(board_type)]
    needed: dict[str, Section] = {s.overwrites: s for s in may if s.name in names and s.overwrites not in scratch}
    for medium, section in needed.items():
        yield f"destructive: {section.name} needs a scratch medium {medium!r}: name it at {place} (docs/benchmarks.md)"
    if not names and may and not any(s.overwrites in scratch for s in may):
        media = ", ".join(dict.fromkeys(s.overwrites for s in may))
        yield f"destructive: nothing may be overwritten: name one of {media} at {place} (docs/benchmarks.md)"


def _unknown(option: str, names: Iterable[str], there: Iterable[str], board_type: BoardType) -> Iterator[str]:
    for name in names:
        if name not in there:
            yield f"{option}: {name}: {board_type.name} has {', '.join(there) or 'none'}"


def _names(chosen_options: Mapping[str, Value], option: str) -> list[str]:
    value = chosen_options.get(option)
    return value if isinstance(value, list) else []


GUIDE: Final = ("boot", "low_power", "sections")  # in this order: the boots begin, since they need no settled board
SECTIONS: Final = "sections"
_RUNS_OF_THEIR_OWN: Final = ("boot", "low_power")  # each has a file and a kind of runs of its name


def expand(names: Iterable[str]) -> tuple[str, ...]:
    """Suites of an order without duplicates; `guide` stands for three."""
    suites: dict[str, None] = {}
    for name in names:
        suites.update(dict.fromkeys(GUIDE if name == "guide" else (name,)))
    return tuple(suites)


def kind(name: str) -> str:
    """Kind of a suite's runs in the store."""
    return name if name in _RUNS_OF_THEIR_OWN else SECTIONS


def files(tests: Path, name: str) -> tuple[Path, ...]:
    """Files that measure a suite.

    The suite `sections` has all files that share a run.

    Raises:
        ConfigurationError: there is no such suite in the folder `tests`.
    """
    there = {path.stem.removeprefix("test_"): path for path in sorted(tests.glob("test_*.py"))}
    suites: dict[str, tuple[Path, ...]] = {
        suite: (there.pop(suite),) for suite in _RUNS_OF_THEIR_OWN if suite in there
    }
    suites |= {chapter: (path,) for chapter, path in there.items()}
    if there:
        suites[SECTIONS] = tuple(there.values())
    if name in suites:
        return suites[name]
    choices = (
        f"there are: {', '.join(['guide', *sorted(suites)])}"
        if suites
        else f"{tests} has none; name their folder with --tests"
    )
    raise ConfigurationError(f"no suite {name!r}; {choices}")
