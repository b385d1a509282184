"""Expansion: from words to arguments, and whole-number arithmetic."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from lab.virtual.sim.program import Program
from lab.virtual.sim.sh.words import Part, ShellSyntaxError, Substitution, Sum, Text, Variable, Word


class Scope(Protocol):
    """Scope of an expansion, e.g. the interpreter."""

    def variable(self, name: str) -> str:
        """A variable's value; empty when unset."""
        ...

    def arguments(self) -> Sequence[str]:
        """The positional parameters."""
        ...

    def output_of(self, script: str) -> Program[str]:
        """Output of a command substitution."""
        ...

    def matching(self, pattern: str) -> list[str]:
        """The files that a pattern names."""
        ...


def fields(words: Iterable[Word], scope: Scope) -> Program[list[str]]:
    """The arguments that words become: expanded, split at blanks, matched against files."""
    result: list[str] = []
    for word in words:
        result += yield from _word_fields(word, scope)
    return result


def text(word: Word, scope: Scope) -> Program[str]:
    """Text of a word that is not split, e.g. an assignment's."""
    pieces = []
    for part in word.parts:
        pieces.append((yield from _value(part, scope)))
    return "".join(pieces)


def _word_fields(word: Word, scope: Scope) -> Program[list[str]]:
    """Split one word into fields of (text, quoted).

    Only unquoted `*` matches files.
    """
    done: list[list[tuple[str, bool]]] = []
    current: list[tuple[str, bool]] | None = None
    for part in word.parts:
        if isinstance(part, Variable) and part.name == "@" and part.quoted:
            for number, argument in enumerate(scope.arguments()):
                if number and current is not None:
                    done.append(current)
                    current = None
                current = [*(current or []), (argument, True)]
            continue
        value = yield from _value(part, scope)
        quoted = isinstance(part, Sum) or part.quoted
        if quoted or isinstance(part, Text):
            if value or quoted:
                current = [*(current or []), (value, quoted)]
            continue
        pieces = value.split()
        if pieces and value[:1].isspace() and current is not None:
            done.append(current)
            current = None
        for number, piece in enumerate(pieces):
            if number and current is not None:
                done.append(current)
                current = None
            current = [*(current or []), (piece, False)]
        if pieces and value[-1:].isspace() and current is not None:
            done.append(current)
            current = None
    if current is not None:
        done.append(current)
    result: list[str] = []
    for field in done:
        plain = "".join(piece for piece, _ in field)
        wild = any(not quoted and re.search(r"[*?\[]", piece) for piece, quoted in field)
        result += (scope.matching(plain) if wild else []) or [plain]
    return result


def _value(part: Part, scope: Scope) -> Program[str]:
    match part:
        case Text():
            return part.text
        case Variable():
            if part.name in {"@", "*"}:
                return " ".join(scope.arguments())
            return scope.variable(part.name) or part.fallback
        case Substitution():
            output = yield from scope.output_of(part.script)
            return output.rstrip("\n")
        case Sum():
            return str(evaluate(part.expression, scope.variable))


# --- Whole-number arithmetic, as in `$((...))` ---


_TOKEN = re.compile(r"\s*(0x[0-9a-fA-F]+|\d+|[A-Za-z_]\w*|<<|>>|[<>=!]=|[-+*/%()<>&|^])")


def _divided(a: int, b: int) -> int:
    if b == 0:
        raise ShellSyntaxError("division by zero")
    return int(a / b)


_LEVELS: tuple[Mapping[str, Callable[[int, int], int]], ...] = (
    {"|": operator.or_},
    {"^": operator.xor},
    {"&": operator.and_},
    {"==": operator.eq, "!=": operator.ne},
    {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge},
    {"<<": operator.lshift, ">>": operator.rshift},
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": _divided, "%": lambda a, b: a - b * _divided(a, b)},
)


def evaluate(expression: str, variable: Callable[[str], str]) -> int:
    """The value of an expression.

    Raises:
        ShellSyntaxError: it is none.
    """
    tokens = _TOKEN.findall(expression)
    if "".join(tokens) != "".join(expression.split()):
        raise ShellSyntaxError(f"arithmetic: {expression!r}")
    at = 0

    def peek() -> str:
        return tokens[at] if at < len(tokens) else ""

    def level(number: int) -> int:
        nonlocal at
        if number == len(_LEVELS):
            return operand()
        value = level(number + 1)
        while peek() in _LEVELS[number]:
            combine = _LEVELS[number][tokens[at]]
            at += 1
            value = int(combine(value, level(number + 1)))
        return value

    def operand() -> int:
        nonlocal at
        this = peek()
        at += 1
        if this == "(":
            value = level(0)
            if peek() != ")":
                raise ShellSyntaxError(f"arithmetic: {expression!r}")
            at += 1
            return value
        if this in {"-", "+"}:
            return -operand() if this == "-" else operand()
        if this[:1].isdigit():
            return int(this, 16 if this.startswith("0x") else 10)
        if this.isidentifier():
            return evaluate(variable(this) or "0", variable)
        raise ShellSyntaxError(f"arithmetic: {expression!r}")

    value = level(0)
    if at < len(tokens):
        raise ShellSyntaxError(f"arithmetic: {expression!r}")
    return value
