"""The conditions of `ifconfig` branches, decided by what the reader was told, and never by running them."""

from __future__ import annotations

import ast
from collections.abc import Mapping


def holds(condition: str, defines: Mapping[str, str]) -> bool | None:
    """Whether a condition such as `CONFIG_part_variant in ('AM62X', 'AM62AX')` is true; None where that is not known.

    Args:
        defines: names -> values; a value is compared as text, without regard to case.
    """
    try:
        return _truth(ast.parse(condition, mode="eval").body, defines)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def undecided(condition: str) -> str:
    """What to say of a branch that was read without being chosen."""
    try:
        names = sorted({node.id for node in ast.walk(ast.parse(condition, mode="eval")) if isinstance(node, ast.Name)})
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        names = []
    how = f"choose with --define {names[0]}=VALUE" if names else "its condition is not understood"
    return f"branches of `ifconfig` were all read, though one device has one of them; {how}, as in `ifconfig:: {condition}`"


def _truth(node: ast.expr, defines: Mapping[str, str]) -> bool | None:
    truth: bool | None = None
    match node:
        case ast.BoolOp(op=op, values=values):
            found = [_truth(value, defines) for value in values]
            decisive = isinstance(op, ast.Or)
            truth = decisive if decisive in found else None if None in found else not decisive
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _truth(operand, defines)
            truth = None if inner is None else not inner
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            truth = _compared(_values(left, defines), op, _values(right, defines))
        case ast.Name(id=name) if name in defines:
            truth = defines[name].lower() not in {"", "0", "false", "no"}
        case ast.Constant(value=value):
            truth = bool(value)
    return truth


def _compared(left: list[str] | None, op: ast.cmpop, right: list[str] | None) -> bool | None:
    if left is None or right is None or len(left) != 1:
        return None
    match op:
        case ast.In() | ast.Eq():
            return left[0] in right
        case ast.NotIn() | ast.NotEq():
            return left[0] not in right
    return None


def _values(node: ast.expr, defines: Mapping[str, str]) -> list[str] | None:
    match node:
        case ast.Name(id=name):
            return [defines[name].lower()] if name in defines else None
        case ast.Constant(value=value):
            return [str(value).lower()]
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            found = [_values(part, defines) for part in parts]
            return None if None in found else [value for values in found for value in values or []]
    return None
