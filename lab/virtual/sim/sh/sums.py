"""Whole-number arithmetic, as in `$((...))`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping

from lab.virtual.sim.sh.words import ShellSyntaxError

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
