"""YAML files written by people, read within bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml
from attrs import define
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)

from lab.errors import ConfigurationError
from lab.terminal import plain

MAX_BYTES: Final = 1024 * 1024
MAX_LEVELS: Final = 64  # the deepest of ours has 8; PyYAML calls itself once a level, labgrid again
MAX_NODES: Final = 100_000  # with every alias written out
_MERGE: Final = "<<"  # what it merges may come from several anchors


@define
class _Open:
    """An open collection. before: earlier nodes. keys: so far; None: a list."""

    anchor: str | None
    before: int
    keys: set[str] | None
    at_key: bool = True


def text_of(path: Path, hint: str = "mend it", *, unique: bool = False) -> str:
    """The text of a YAML file that can be loaded without harm.

    Args:
        hint: remedy for messages.
        unique: refuse a repeated key; YAML's reader silently takes the last one.

    Raises:
        ConfigurationError: it cannot be read, is no UTF-8, no YAML, too large, too deep, or grows by its aliases.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}; {hint}") from error
    if len(data) > MAX_BYTES:
        raise ConfigurationError(
            f"{path}: more than {MAX_BYTES} bytes; at most so many are read. Is it the right file?"
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(
            f"{path}:{line}: cannot be read: byte {data[error.start]:#04x} is no UTF-8; save the file as UTF-8"
        ) from error
    try:
        _check(path, text, unique=unique)
    except yaml.YAMLError as error:
        raise not_yaml(path, error) from error
    return text


def load(path: Path, hint: str = "mend it", *, unique: bool = False) -> Any:
    """Load a YAML file: mappings, lists, text and numbers.

    Raises:
        ConfigurationError: as of `text_of`.
    """
    text = text_of(path, hint, unique=unique)
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, OverflowError, TypeError) as error:  # e.g. the date 2026-99-99
        raise not_yaml(path, error) from error


def not_yaml(path: Path, error: Exception) -> ConfigurationError:
    """The error of a file that YAML's reader refuses."""
    mark = getattr(error, "problem_mark", None)
    line = f":{mark.line + 1}" if mark is not None else ""
    reason = " ".join(str(getattr(error, "problem", None) or error).split())
    return ConfigurationError(f"{path}{line}: not YAML: {plain(reason)[:200]}")


def _check(path: Path, text: str, *, unique: bool) -> None:
    """Check the file's events without building anything of it."""
    sizes: dict[str, int] = {}  # of what an anchor names, with every alias in it written out
    open_: list[_Open] = []
    nodes = 0
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if unique and open_ and isinstance(event, NodeEvent):
            _note_key(path, open_[-1], event)
        if isinstance(event, AliasEvent):
            if event.anchor in {enclosing.anchor for enclosing in open_}:
                raise ConfigurationError(
                    f"{path}:{_line(event)}: *{event.anchor} refers to what it stands in; write it out"
                )
            nodes += sizes.get(str(event.anchor), 1)
        elif isinstance(event, NodeEvent):
            nodes += 1
        if isinstance(event, ScalarEvent) and event.anchor:
            sizes[event.anchor] = 1
        elif isinstance(event, CollectionStartEvent):
            open_.append(_Open(event.anchor, nodes - 1, set() if isinstance(event, MappingStartEvent) else None))
        elif isinstance(event, CollectionEndEvent):
            closed = open_.pop()
            if closed.anchor:
                sizes[closed.anchor] = nodes - closed.before
        if len(open_) > MAX_LEVELS:
            raise ConfigurationError(
                f"{path}:{_line(event)}: more than {MAX_LEVELS} levels deep; is it the right file?"
            )
        if nodes > MAX_NODES:
            raise ConfigurationError(
                f"{path}:{_line(event)}: more than {MAX_NODES} entries, with its aliases (*name) written out; is it "
                "the right file?"
            )


def _note_key(path: Path, within: _Open, event: NodeEvent) -> None:
    """Note a node of a mapping: keys and values alternate."""
    if within.keys is None:
        return
    if within.at_key and isinstance(event, ScalarEvent) and event.value != _MERGE:
        if event.value in within.keys:
            raise ConfigurationError(
                f"{path}:{_line(event)}: {plain(event.value)[:60]}: stands here twice; delete one"
            )
        within.keys.add(event.value)
    within.at_key = not within.at_key


def _line(event: Event) -> int:
    return event.start_mark.line + 1 if event.start_mark is not None else 1
