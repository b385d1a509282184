"""Words: what a command line is made of before it is expanded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

from attrs import frozen

OPERATORS = ("&&", "||", ";;", "2>&1", ">&2", "&>", "2>>", "2>", ">>", ">", "<", "|", "&", ";", "\n", "(", ")")
_NAME = re.compile(r"\w+|[?#@*$!-]")
_ESCAPED_IN_QUOTES = '$`"\\\n'


class ShellSyntaxError(Exception):
    """The text is no command."""


class IncompleteError(ShellSyntaxError):
    """The text is incomplete: the prompt asks for more."""


@frozen
class Text:
    """Literal characters; quoted ones are neither split nor matched."""

    text: str
    quoted: bool


@frozen
class Variable:
    """`$name` or `${name}` or `${name:-fallback}`."""

    name: str
    quoted: bool
    fallback: str = ""


@frozen
class Substitution:
    """`$(script)`: the script's output."""

    script: str
    quoted: bool


@frozen
class Sum:
    """`$((expression))`."""

    expression: str


Part: TypeAlias = Text | Variable | Substitution | Sum


@frozen
class Word:
    """A word; `plain` is the text of a single bare piece.

    Keywords and names of functions are such pieces.
    """

    parts: tuple[Part, ...]

    @property
    def plain(self) -> str | None:
        """The word's text if nothing in it is quoted or expanded."""
        if len(self.parts) == 1 and isinstance(self.parts[0], Text) and not self.parts[0].quoted:
            return self.parts[0].text
        return None


@frozen
class Operator:
    """Punctuation; a line's end is the operator "\\n"."""

    text: str


def tokens(source: str) -> list[Word | Operator]:
    """The words and operators of a text.

    Raises:
        IncompleteError: a quote or a substitution is not closed.
    """
    return list(_Lexer(source).tokens())


class _Lexer:
    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0

    def tokens(self) -> Iterator[Word | Operator]:
        while self._at < len(self._source):
            char = self._source[self._at]
            operator = next((o for o in OPERATORS if self._source.startswith(o, self._at)), None)
            if self._source.startswith("\\\n", self._at):
                self._at += 2
            elif char in " \t\r":
                self._at += 1
            elif char == "#":
                self._at = self._until("\n", self._at)
            elif operator is not None:
                self._at += len(operator)
                yield Operator(operator)
            else:
                yield self._word()

    def _word(self) -> Word:
        parts: list[Part] = []
        bare: list[str] = []

        def end_of_bare() -> None:
            if bare:
                parts.append(Text("".join(bare), quoted=False))
                bare.clear()

        while self._at < len(self._source):
            char = self._source[self._at]
            if char in " \t\r\n;&|<>()":
                break
            if char == "\\":
                end_of_bare()
                parts.append(Text(self._source[self._at + 1 : self._at + 2], quoted=True))
                self._at += 2
            elif char == "'":
                end_of_bare()
                parts.append(Text(self._quoted(), quoted=True))
            elif char == '"':
                end_of_bare()
                parts += self._double_quoted()
            elif char in "$`":
                end_of_bare()
                parts.append(self._expansion(quoted=False))
            else:
                bare.append(char)
                self._at += 1
        end_of_bare()
        return Word(tuple(parts))

    def _quoted(self) -> str:
        end = self._closing("'", self._at + 1)
        text = self._source[self._at + 1 : end]
        self._at = end + 1
        return text

    def _double_quoted(self) -> list[Part]:
        self._at += 1
        parts: list[Part] = [Text("", quoted=True)]
        while True:
            if self._at >= len(self._source):
                raise IncompleteError('unterminated "')
            char = self._source[self._at]
            if char == '"':
                self._at += 1
                return parts
            if char in "$`":
                parts.append(self._expansion(quoted=True))
                continue
            if char == "\\" and self._source[self._at + 1 : self._at + 2] in _ESCAPED_IN_QUOTES:
                self._at += 1
                char = self._source[self._at : self._at + 1]
            parts.append(Text(char, quoted=True))
            self._at += 1

    def _expansion(self, *, quoted: bool) -> Part:
        source, at = self._source, self._at
        if source[at] == "`":
            end = self._closing("`", at + 1)
            self._at = end + 1
            return Substitution(source[at + 1 : end], quoted)
        if source.startswith("$((", at):
            end = self._closing_parenthesis(at + 2)
            self._at = end + 1
            return Sum(source[at + 3 : end - 1])
        if source.startswith("$(", at):
            end = self._closing_parenthesis(at + 2)
            self._at = end + 1
            return Substitution(source[at + 2 : end], quoted)
        if source.startswith("${", at):
            end = self._closing("}", at + 2)
            self._at = end + 1
            name, _, fallback = source[at + 2 : end].partition(":-")
            return Variable(name, quoted, fallback)
        if source.startswith("$$", at):
            self._at += 2
            return Variable("$", quoted)
        name_there = _NAME.match(source, at + 1)
        if name_there is None:
            self._at += 1
            return Text("$", quoted=True)
        self._at = name_there.end()
        return Variable(name_there[0], quoted)

    def _closing(self, text: str, start: int) -> int:
        end = self._source.find(text, start)
        if end < 0:
            raise IncompleteError(f"unterminated {text}")
        return end

    def _closing_parenthesis(self, start: int) -> int:
        depth = 1
        for at in range(start, len(self._source)):
            depth += {"(": 1, ")": -1}.get(self._source[at], 0)
            if depth == 0:
                return at
        raise IncompleteError("unterminated $(")

    def _until(self, text: str, start: int) -> int:
        end = self._source.find(text, start)
        return len(self._source) if end < 0 else end
