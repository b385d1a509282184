"""Each command has an example in its help, which it takes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from lab.cli.examples import EXAMPLES
from lab.cli.main import COMMAND_GROUPS, build


def leaves(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The commands without commands of their own, by the words that lead to them."""
    inner = getattr(command, "commands", None)
    if not inner:
        yield words, command
        return
    for name, one in inner.items():
        yield from leaves((*words, name), one)


def test_each_command_has_an_example_in_its_help_which_it_takes() -> None:
    examples = {line for line in EXAMPLES.splitlines() if line}
    for group in COMMAND_GROUPS:
        command = get_command(build([group.name, "--help"], COMMAND_GROUPS)).commands[group.name]  # type: ignore[attr-defined]
        for words, leaf in leaves((group.name,), command):
            if leaf.hidden:
                continue
            assert leaf.epilog, f"lab {' '.join(words)} has no example"
            example = leaf.epilog.removeprefix("Example: lab ")
            examples.remove(example)
            leaf.make_context(" ".join(words), shlex.split(example)[len(words) :])
    assert not examples, "of commands that are not there"
