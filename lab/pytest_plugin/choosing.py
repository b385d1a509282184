"""Which sections a session measures: those of `--lab-sections`, or those of the plan of the run that is resumed."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import pytest
from attrs import frozen

from lab.benchmarks.sections import ALL
from lab.errors import BoardlabError
from lab.pytest_plugin import resuming
from lab.pytest_plugin.refusing import measures
from lab.pytest_plugin.runs import STORE_KEY, STRATEGY_KEY
from lab.run import options
from lab.shown import plain_text


@frozen
class Choice:
    """What a session may measure.

    Attributes:
        asked: the names that `--lab-sections` gives. planned: those of the plan of the run that is resumed. Empty: all.
        destructive: whether scratch media may be overwritten.
    """

    asked: frozenset[str]
    planned: frozenset[str]
    destructive: bool

    def apply(self, config: pytest.Config, items: list[pytest.Item], sections: Mapping[int, str]) -> None:
        """Leave the tests out that measure something else; tests that measure nothing stay.

        Args:
            sections: the id() of each test of a section -> the section's name.

        Raises:
            pytest.UsageError: a section was asked for that none of the tests measures.
        """
        missing = self.asked - {*sections.values()}
        if missing and any(measures(item) for item in items):
            raise pytest.UsageError("; ".join(_absent(name, config) for name in sorted(missing)))
        others = [item for item in items if self._leaves_out(item, sections.get(id(item)))]
        if others:
            config.hook.pytest_deselected(items=others)
            items[:] = [item for item in items if item not in others]

    def _leaves_out(self, item: pytest.Item, name: str | None) -> bool:
        if name is None:
            return bool(self.asked and measures(item))
        return any(chosen and name not in chosen for chosen in (self.asked, self.planned))


def of_session(config: pytest.Config) -> Choice:
    """What the options say, and the plan of the run that is resumed.

    Raises:
        pytest.UsageError: the run cannot be resumed.
    """
    asked = options.read({"sections": config.option.lab_sections}).get("sections", [])
    names = frozenset(asked) if isinstance(asked, list) else frozenset()
    destructive = bool(config.option.lab_destructive)
    if config.option.lab_resume is None or STORE_KEY not in config.stash:
        return Choice(names, frozenset(), destructive)
    try:
        plan = resuming.resumable(config, config.stash[STORE_KEY]).plan
    except BoardlabError as error:
        raise pytest.UsageError(plain_text(str(error))) from error
    return Choice(names, frozenset(plan.get("sections", ())), destructive or plan.get("destructive") is True)


def _absent(name: str, config: pytest.Config) -> str:
    known = {section.name: section for section in ALL}
    board_type = config.stash[STRATEGY_KEY].type if STRATEGY_KEY in config.stash else None
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        return f"--lab-sections {name}: there is no such section" + (f"; did you mean {close[0]}?" if close else "")
    if board_type is not None and not known[name].fits(board_type):
        return f"--lab-sections {name}: {board_type.title} does not have what it measures; leave it out"
    return (
        f"--lab-sections {name}: none of these tests measures it; its chapter is {known[name].chapter!r}: name that "
        "chapter's file, or none"
    )
