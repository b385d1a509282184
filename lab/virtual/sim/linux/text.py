"""Commands on text, such as cat, grep, head, sort, printf, test.

All: echo, cat, grep, head, tail, wc, sort, uniq, md5sum, cut, tr, seq, printf, test.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import itertools
import re
from collections.abc import Mapping, Sequence

from lab.virtual.sim.linux.session import LoginSession, Tool, complain, inputs, say
from lab.virtual.sim.program import Program
from lab.virtual.sim.sh.interpreter import Interpreter, Streams


def _echo(_session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    words = list(arguments[1:])
    end, escapes = "\n", False
    while words and re.fullmatch(r"-[neE]+", words[0]):
        option = words.pop(0)
        end = "" if "n" in option else end
        escapes = "e" in option or escapes
    text = " ".join(words)
    yield from streams.out(((_unescaped(text) if escapes else text) + end).encode())
    return 0


def _printf(_session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    if len(arguments) < 2:
        return (yield from complain(streams, "printf: usage: printf format [arguments]"))
    left = iter(arguments[2:])
    text = re.sub(r"%[-0-9.]*[sdxf]", lambda match: _formatted(match[0], next(left, "")), _unescaped(arguments[1]))
    yield from streams.out(text.replace("%%", "%").encode())
    return 0


def _formatted(conversion: str, value: str) -> str:
    if conversion[-1] == "s":
        return conversion % value
    number = float(value or 0)
    return conversion % (number if conversion[-1] == "f" else int(number))


def _unescaped(text: str) -> str:
    known = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "0": "\0"}
    return re.sub(r"\\([ntr0\\])", lambda match: known[match[1]], text)


def _cat(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    status = 0
    for path in arguments[1:] or ["-"]:
        found = yield from inputs(session, [path], streams, "cat")
        status = status if found else 1
        for _, content in found:
            yield from streams.out(content)
    return status


def _grep(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    options = "".join(a[1:] for a in arguments[1:] if a.startswith("-") and len(a) > 1)
    words = [a for a in arguments[1:] if not a.startswith("-")]
    if not words:
        return (yield from complain(streams, "Usage: grep [OPTION]... PATTERNS [FILE]...")) + 1
    pattern = re.escape(words[0]) if "F" in options else words[0]
    try:
        wanted = re.compile(
            pattern if "E" in options or "F" in options else _basic(pattern), re.IGNORECASE * ("i" in options)
        )
    except re.error:
        return (yield from complain(streams, "grep: Invalid regular expression")) + 1
    found = yield from inputs(session, words[1:], streams, "grep")
    matched = [
        (f"{path}:" if "H" in options or (len(words) > 2 and "h" not in options) else "")
        + (f"{number}:" if "n" in options else "")
        + line
        for path, content in found
        for number, line in enumerate(content.decode(errors="replace").splitlines(), 1)
        if bool(wanted.search(line)) != ("v" in options)
    ]
    if "c" in options:
        yield from say(streams, str(len(matched)))
    elif "o" in options:
        yield from streams.out("".join(f"{part[0]}\n" for line in matched for part in wanted.finditer(line)).encode())
    elif "q" not in options and matched:
        yield from streams.out("".join(line + "\n" for line in matched).encode())
    return int(not matched)


def _basic(pattern: str) -> str:
    """Convert a basic regular expression to an extended one.

    Its \\| \\( \\) \\+ \\? become bare, and the bare ones text.
    """
    return re.sub(r"\\?[|()+?{}]", lambda match: match[0][1:] if match[0][0] == "\\" else "\\" + match[0], pattern)


def _lines(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    """head and tail; `head -c BYTES /dev/urandom` too."""
    if arguments[1:2] == ["-c"] and arguments[-1] == "/dev/urandom":
        dice = session.computer.dice("urandom", session.computer.starts, session.kernel.clock_ns)
        yield from streams.out(dice.randbytes(int(arguments[2])))
        return 0
    count, paths = 10, []
    rest = iter(arguments[1:])
    for word in rest:
        option = re.fullmatch(r"-n?(\d+)", word)
        if option:
            count = int(option[1])
        elif word == "-n":
            count = int(next(rest, "10"))
        else:
            paths.append(word)
    for _, content in (yield from inputs(session, paths, streams, arguments[0])):
        lines = content.splitlines(keepends=True)
        kept = lines[:count] if arguments[0] == "head" else lines[len(lines) - min(count, len(lines)) :]
        yield from streams.out(b"".join(kept))
    return 0


def _wc(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    options = [a for a in arguments[1:] if a.startswith("-")]
    paths = [a for a in arguments[1:] if not a.startswith("-")]
    for path, content in (yield from inputs(session, paths, streams, "wc")):
        counts = {"l": content.count(b"\n"), "w": len(content.split()), "c": len(content)}
        shown = [counts[o] for option in options for o in option[1:] if o in counts] or list(counts.values())
        yield from say(streams, " ".join(map(str, shown)) + (f" {path}" if path != "-" else ""))
    return 0


def _sort(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    options = "".join(a[1:] for a in arguments[1:] if a.startswith("-"))
    paths = [a for a in arguments[1:] if not a.startswith("-")]
    found = yield from inputs(session, paths, streams, "sort")
    lines = [line for _, content in found for line in content.decode(errors="replace").splitlines()]

    def key(line: str) -> tuple[float, str]:
        number = re.match(r"\s*(-?\d+(\.\d+)?)", line)
        return (float(number[1]) if number and "n" in options else 0.0, line)

    ordered = sorted(set(lines) if "u" in options else lines, key=key, reverse="r" in options)
    yield from streams.out("".join(line + "\n" for line in ordered).encode())
    return 0


def _uniq(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    paths = [a for a in arguments[1:] if not a.startswith("-")]
    for _, content in (yield from inputs(session, paths, streams, "uniq")):
        for line, same in itertools.groupby(content.decode(errors="replace").splitlines()):
            yield from say(streams, (f"{len(list(same)):7d} " if "-c" in arguments else "") + line)
    return 0


def _md5sum(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    found = yield from inputs(session, arguments[1:], streams, "md5sum")
    for path, content in found:
        yield from say(streams, f"{hashlib.md5(content, usedforsecurity=False).hexdigest()}  {path}")
    return int(len(found) < len(arguments) - 1)


def _gzip(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    """`gzip -c` of standard input."""
    yield from streams.out(gzip.compress(streams.stdin or b"", mtime=0))
    return 0


def _base64(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    """Of standard input, in lines of 76 characters."""
    yield from streams.out(base64.encodebytes(streams.stdin or b""))
    return 0


def _cut(session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    delimiter, columns, paths = "\t", [1], []
    rest = iter(arguments[1:])
    for word in rest:
        if word.startswith("-d"):
            delimiter = word[2:] or next(rest, "\t")
        elif word.startswith("-f"):
            ranges = [part.partition("-") for part in (word[2:] or next(rest, "1")).split(",")]
            columns = [n for first, _, last in ranges for n in range(int(first), int(last or first) + 1)]
        else:
            paths.append(word)
    for _, content in (yield from inputs(session, paths, streams, "cut")):
        for line in content.decode(errors="replace").splitlines():
            cells = line.split(delimiter)
            chosen = [cells[column - 1] for column in columns if column <= len(cells)]
            yield from say(streams, delimiter.join(chosen) if len(cells) > 1 else line)
    return 0


def _tr(_session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    text = (streams.stdin or b"").decode(errors="replace")
    match list(arguments[1:]):
        case ["-d", gone]:
            text = text.translate({ord(char): None for char in _unescaped(gone)})
        case [old, new] if new:
            old, new = _unescaped(old), _unescaped(new)
            text = text.translate({ord(a): b for a, b in zip(old, new + new[-1] * len(old), strict=False)})
        case _:
            return (yield from complain(streams, "Usage: tr [-d] STRING1 [STRING2]"))
    yield from streams.out(text.encode())
    return 0


def _seq(_session: LoginSession, arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    numbers = [int(word) for word in arguments[1:] if re.fullmatch(r"-?\d+", word)]
    if not numbers or len(numbers) != len(arguments) - 1:
        return (yield from complain(streams, "seq: usage: seq [first [step]] last"))
    first, step, last = {1: (1, 1, numbers[0]), 2: (numbers[0], 1, numbers[-1])}.get(
        len(numbers), (numbers[0], numbers[1] if len(numbers) > 1 else 1, numbers[-1])
    )
    for number in range(first, last + (1 if step > 0 else -1), step or 1):
        yield from say(streams, str(number))
    return 0


def _test(session: LoginSession, arguments: Sequence[str], _streams: Streams, _shell: Interpreter) -> Program[int]:
    yield from ()
    words = list(arguments[1:])
    if arguments[0] == "[" and words[-1:] == ["]"]:
        words.pop()
    negated = words[:1] == ["!"]
    return int(_holds(session, words[negated:]) == negated)


def _holds(session: LoginSession, words: list[str]) -> bool:
    numeric = {"-eq": "==", "-ne": "!=", "-lt": "<", "-le": "<=", "-gt": ">", "-ge": ">="}
    match words:
        case [text]:
            return bool(text)
        case ["-n", text]:
            return bool(text)
        case ["-z", text]:
            return not text
        case ["-e" | "-f" | "-r" | "-w" | "-x" | "-s", path]:
            return session.files.read(session.path(path)) is not None or session.files.is_folder(session.path(path))
        case ["-d", path]:
            return session.files.is_folder(session.path(path))
        case [left, "=" | "==", right]:
            return left == right
        case [left, "!=", right]:
            return left != right
        case [left, operator, right] if operator in numeric and _is_int(left) and _is_int(right):
            sign = (int(left) > int(right)) - (int(left) < int(right))
            return (
                sign in {"==": {0}, "!=": {-1, 1}, "<": {-1}, "<=": {-1, 0}, ">": {1}, ">=": {0, 1}}[numeric[operator]]
            )
    return False


def _is_int(text: str) -> bool:
    return re.fullmatch(r"-?\d+", text) is not None


TOOLS: Mapping[str, Tool] = {
    "[": _test,
    "base64": _base64,
    "cat": _cat,
    "cut": _cut,
    "echo": _echo,
    "grep": _grep,
    "gzip": _gzip,
    "head": _lines,
    "md5sum": _md5sum,
    "printf": _printf,
    "seq": _seq,
    "sort": _sort,
    "tail": _lines,
    "test": _test,
    "tr": _tr,
    "uniq": _uniq,
    "wc": _wc,
}
