"""Commands: from words to a tree, and the tree's nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from attrs import evolve, frozen

from lab.virtual.sim.sh.words import IncompleteError, Operator, ShellSyntaxError, Text, Word, tokens

REDIRECTIONS = frozenset({">", ">>", "<", "2>", "2>>", "&>"})
_DUPLICATIONS = frozenset({"2>&1", ">&2"})
_ENDS = frozenset({"then", "fi", "else", "elif", "do", "done", "}"})


def parse(source: str) -> Items:
    """The tree of a text.

    Raises:
        IncompleteError: more lines are needed.
        ShellSyntaxError: it is no command.
    """
    parser = _Parser(tokens(source))
    tree = parser.sequence()
    parser.expect_end()
    return tree


class _Parser:
    def __init__(self, stream: list[Word | Operator]) -> None:
        self._stream = stream
        self._at = 0

    def expect_end(self) -> None:
        if self._at < len(self._stream):
            raise ShellSyntaxError(f'unexpected "{self._shown()}"')

    def sequence(self) -> Items:
        items: list[AndOr] = []
        while True:
            while self._operator(";", "\n", "&"):
                pass
            if self._at >= len(self._stream) or self._peek() in _ENDS or self._is_operator(")", ";;"):
                return Items(tuple(items))
            items.append(self._and_or())
            if self._is_operator("&"):
                items[-1] = evolve(items[-1], background=True)
            if not self._is_operator(";", "\n", "&"):
                return Items(tuple(items))

    def _and_or(self) -> AndOr:
        first = self._pipeline()
        rest = []
        while operator := self._operator("&&", "||"):
            self._lines()
            rest.append((operator, self._pipeline()))
        return AndOr(first, tuple(rest))

    def _pipeline(self) -> Pipeline:
        negated = self._keyword("!")
        commands = [self._command()]
        while self._operator("|"):
            self._lines()
            commands.append(self._command())
        return Pipeline(tuple(commands), negated)

    def _command(self) -> Command:
        compounds: dict[str, Callable[[], Command]] = {
            "if": self._if,
            "for": self._for,
            "while": lambda: self._while(until=False),
            "until": lambda: self._while(until=True),
            "{": lambda: Group(self._body("}"), self._redirections()),
        }
        compound = compounds.get(self._peek() or "")
        if compound is not None:
            self._at += 1
            return compound()
        if self._operator("("):
            return self._subshell()
        if self._stream[self._at + 1 : self._at + 3] == [Operator("("), Operator(")")]:
            return self._function()
        return self._simple()

    def _subshell(self) -> Group:
        body = self.sequence()
        if not self._operator(")"):
            raise self._unexpected()
        return Group(body, self._redirections(), subshell=True)

    def _function(self) -> Function:
        name = self._peek()
        if name is None:
            raise self._unexpected()
        self._at += 3
        self._lines()
        self._need("{")
        return Function(name, self._body("}"))

    def _if(self) -> If:
        branches = []
        while True:
            condition = self._body("then")
            body = self.sequence()
            branches.append((condition, body))
            if self._keyword("elif"):
                continue
            other = self.sequence() if self._keyword("else") else Items(())
            self._need("fi")
            return If(tuple(branches), other)

    def _for(self) -> For:
        name = self._peek()
        if name is None:
            raise self._unexpected()
        self._at += 1
        words = []
        if self._keyword("in"):
            while self._at < len(self._stream) and isinstance(word := self._stream[self._at], Word):
                words.append(word)
                self._at += 1
        self._lines(";")
        self._need("do")
        return For(name, tuple(words), self._body("done"))

    def _while(self, *, until: bool) -> While:
        condition = self._body("do")
        return While(condition, self._body("done"), until)

    def _body(self, end: str) -> Items:
        body = self.sequence()
        self._need(end)
        return body

    def _simple(self) -> Simple:
        assignments: list[tuple[str, Word]] = []
        words: list[Word] = []
        redirections: list[Redirection] = []
        while self._at < len(self._stream):
            token = self._stream[self._at]
            if isinstance(token, Operator):
                if token.text in _DUPLICATIONS:
                    redirections.append(Redirection(token.text, Word(())))
                    self._at += 1
                    continue
                if token.text not in REDIRECTIONS:
                    break
                redirections += self._redirections()
                continue
            self._at += 1
            assignment = _assignment(token) if not words else None
            if assignment is None:
                words.append(token)
            else:
                assignments.append(assignment)
        if not assignments and not words and not redirections:
            raise self._unexpected()
        return Simple(tuple(assignments), tuple(words), tuple(redirections))

    def _redirections(self) -> tuple[Redirection, ...]:
        found = []
        while operator := self._operator(*REDIRECTIONS):
            if self._at >= len(self._stream) or not isinstance(target := self._stream[self._at], Word):
                raise self._unexpected()
            self._at += 1
            found.append(Redirection(operator, target))
        return tuple(found)

    def _peek(self) -> str | None:
        token = self._stream[self._at] if self._at < len(self._stream) else None
        return token.plain if isinstance(token, Word) else None

    def _keyword(self, word: str) -> bool:
        found = self._peek() == word
        self._at += found
        return found

    def _need(self, word: str) -> None:
        self._lines()
        if not self._keyword(word):
            raise self._unexpected()

    def _is_operator(self, *texts: str) -> bool:
        token = self._stream[self._at] if self._at < len(self._stream) else None
        return isinstance(token, Operator) and token.text in texts

    def _operator(self, *texts: str) -> str:
        if not self._is_operator(*texts):
            return ""
        token = self._stream[self._at]
        self._at += 1
        return token.text if isinstance(token, Operator) else ""

    def _lines(self, *more: str) -> None:
        while self._operator("\n", *more):
            pass

    def _unexpected(self) -> ShellSyntaxError:
        if self._at >= len(self._stream):
            return IncompleteError("unexpected end of file")
        return ShellSyntaxError(f'unexpected "{self._shown()}"')

    def _shown(self) -> str:
        token = self._stream[self._at]
        if isinstance(token, Operator):
            return "newline" if token.text == "\n" else token.text
        return token.plain or "word"


def _assignment(word: Word) -> tuple[str, Word] | None:
    head = word.parts[0] if word.parts else None
    if not isinstance(head, Text) or head.quoted:
        return None
    name, equals, value = head.text.partition("=")
    if not equals or not name.isidentifier():
        return None
    first = (Text(value, quoted=False),) if value else ()
    return name, Word((*first, *word.parts[1:]))


# --- The tree of a command ---


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
    """`a && b || c`: the first, then operators with pipelines.

    background: `&` ends it.
    """

    first: Pipeline
    rest: tuple[tuple[str, Pipeline], ...]
    background: bool = False


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
    """`{ body; }`, or the subshell `( body )`, with redirections."""

    body: Items
    redirections: tuple[Redirection, ...]
    subshell: bool = False


Command: TypeAlias = Simple | If | For | While | Function | Group
