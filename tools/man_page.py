"""The man page lab(1) and the site's table of commands, from the commands themselves.

`python tools/man_page.py` writes docs/man/lab.1, in the format of man-pages(7) and groff_man(7). mkdocs calls
`on_page_markdown` for each page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from typer.main import get_command

from lab.cli.main import COMMAND_GROUPS, build

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "man" / "lab.1"
CLI_PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "cli.md"
_MARK: Final = "<!-- the commands -->"
_SKIPPED: Final = frozenset({"--help", "--install-completion", "--show-completion"})
_ABOUT: Final = """\
.B lab
power-cycles boards, boots them from their media, and measures boot time, sleep, power and benchmarks, each number with its
uncertainty and its evidence. It is a project of labgrid and pytest:
.B pytest \\-\\-lg\\-env BOARD.yaml
measures, and
.B lab
does everything else.
"""


def lines() -> Iterator[str]:
    """The page."""
    yield '.\\" python tools/man_page.py writes this file.'
    yield '.TH LAB 1 "" boardlab "User Commands"'
    yield from (".SH NAME", "lab \\- the performance lab for boards")
    yield from (
        ".SH SYNOPSIS",
        ".B lab",
        r"[\fB\-\-version\fR] [\fB\-\-help\fR]",
        r"\fICOMMAND\fR [\fIARGUMENT\fR ...]",
    )
    yield from (".SH DESCRIPTION", *_ABOUT.splitlines())
    yield ".SH COMMANDS"
    for usage, command, arguments, options in all_commands():
        yield from _section(usage, command, arguments, options)
    for title, heading in (("EXIT STATUS", "Exit codes"), ("ENVIRONMENT", "Environment variables")):
        yield f".SH {title}"
        for term, text in table_rows(heading):
            yield from (".TP", f"\\fB{_roff(term)}\\fR", _line(text))
    yield from (".SH SEE ALSO", r"\fBpytest\fR(1), \fBlabgrid\-client\fR(1), \fBpdudaemon\fR(1)")


def text() -> str:
    """The page as it stands in its file."""
    return "\n".join(lines()) + "\n"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with the table of commands in place of its mark."""
    return markdown.replace(_MARK, _table()) if _MARK in markdown else markdown


def _table() -> str:
    rows = (f"| `{usage}` | {_paragraphs(command)[0]} |" for usage, command, *_ in all_commands())
    return "\n".join(["| Command | Effect |", "|---|---|", *rows])


def _loaded(*words: str) -> Any:
    """The command of these words, with what they load."""
    command: Any = get_command(build([*words, "--help"], COMMAND_GROUPS))
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    return command


def all_commands() -> Iterator[tuple[str, Any, list[Any], list[Any]]]:
    """Each command: its name with arguments, itself, its arguments, its options."""
    for group in COMMAND_GROUPS:
        yield from _commands(f"lab {group.name}", _loaded(group.name))


def _commands(name: str, command: Any) -> Iterator[tuple[str, Any, list[Any], list[Any]]]:
    inner = {key: each for key, each in getattr(command, "commands", {}).items() if not _is_stand_in(each)}
    for key, each in inner.items():
        yield from _commands(f"{name} {key}", each)
    if inner and not command.invoke_without_command:
        return
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [
        parameter for parameter in command.params if parameter.param_type_name == "option" and _shown(parameter)
    ]
    yield " ".join([name, *map(_argument, arguments)]), command, arguments, options


def _section(usage: str, command: Any, arguments: list[Any], options: list[Any]) -> Iterator[str]:
    yield f".SS {_roff(' '.join([usage, *(['[OPTIONS]'] if options else [])]))}"
    for number, paragraph in enumerate(_paragraphs(command)):
        yield from ([".PP"] if number else [])
        yield _line(paragraph)
    if command.epilog:
        yield from (".PP", _line(command.epilog))
    for each in (*arguments, *options):
        yield from (".TP", _term(each), _line(each.help or "") or r"\&")


def _paragraphs(command: Any) -> list[str]:
    return [" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", (command.help or "").strip())]


def _is_stand_in(command: Any) -> bool:
    """Whether it stands for a command of another module, which is listed with that."""
    return getattr(command.callback, "__name__", "") == "_stand_in"


def _shown(option: Any) -> bool:
    return not option.hidden and not _SKIPPED & set(option.opts)


def _term(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"\\fI{_roff(_metavar(parameter))}\\fR"
    names = ", ".join(f"\\fB{_roff(name)}\\fR" for name in (*parameter.opts, *parameter.secondary_opts))
    return names if parameter.is_flag else f"{names} \\fI{_roff(_metavar(parameter))}\\fR"


def _argument(argument: Any) -> str:
    word = _metavar(argument)
    return word if argument.required or word.startswith("[") else f"[{word}]"


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name).upper()


def table_rows(heading: str) -> Iterator[tuple[str, str]]:
    """The rows of a table of the page of commands."""
    section = CLI_PAGE.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    section = re.sub(r"[,;] see \[[^|]*\)", "", section)
    for row in re.findall(r"^\| (.*) \|$", section, re.MULTILINE)[1:]:
        cells = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", cell).replace("`", "").strip() for cell in row.split(" | ")]
        if not set(cells[0]) <= {"-", "|"}:
            yield cells[0], cells[1]


def _roff(words: str) -> str:
    """Text in which nothing is a request or an escape of roff."""
    written = words.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq")
    return "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in written)


def _line(words: str) -> str:
    """Text as a line of its own."""
    shown = re.sub(r"`([^`]+)`", r"\\fB\1\\fR", _roff(words))
    return f"\\&{shown}" if shown.startswith(".") else shown


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(text(), encoding="utf-8")
