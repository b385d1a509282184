"""The tree of a command."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from lab.virtual.sim.sh.words import Word


@frozen
class Redirection:
    """`operator target`."""

    operator: str
    target: Word


@frozen
class Simple:
    """`A=1 command words > file`."""

    assignments: tuple[tuple[str, Word], ...]
    words: tuple[Word, ...]
    redirections: tuple[Redirection, ...]


@frozen
class Pipeline:
    """`a | b`."""

    commands: tuple[Command, ...]
    negated: bool = False


@frozen
class AndOr:
    """`a && b || c`: the first, then pairs of operator and pipeline."""

    first: Pipeline
    rest: tuple[tuple[str, Pipeline], ...]


@frozen
class Items:
    """`a; b`, and the bodies of all others."""

    items: tuple[AndOr, ...]


@frozen
class If:
    """Condition and body of each branch; `other` is what `else` says."""

    branches: tuple[tuple[Items, Items], ...]
    other: Items


@frozen
class For:
    """`for name in words; do body; done`."""

    name: str
    words: tuple[Word, ...]
    body: Items


@frozen
class While:
    """`while condition; do body; done`, or until."""

    condition: Items
    body: Items
    until: bool


@frozen
class Function:
    """`name() { body; }`."""

    name: str
    body: Items


@frozen
class Group:
    """`{ body; }`, or in a shell of its own `( body )`, with redirections."""

    body: Items
    redirections: tuple[Redirection, ...]
    subshell: bool = False


Command: TypeAlias = Simple | If | For | While | Function | Group
