"""Whose a process is, in the words by which others of the lab know that person."""

from __future__ import annotations

import pwd
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
_NOBODY_LOGGED_IN: Final = 0xFFFFFFFF  # of a process that no login started, proc_pid_loginuid(5)
_PROGRAM_CHARACTERS: Final = 60


def person(pid: int, proc: Path = PROC) -> str:
    """Who started a process: the user who logged in, also where a shared account runs it; else its owner. Empty: it is gone."""
    try:
        uid = (proc / str(pid)).stat().st_uid
    except OSError:
        return ""
    try:
        login = int((proc / str(pid) / "loginuid").read_text("ascii"))
    except (OSError, ValueError):  # a kernel without audit
        login = _NOBODY_LOGGED_IN
    return user_name(uid if login == _NOBODY_LOGGED_IN else login)


def user_name(uid: int) -> str:
    """A user's name; the number where none is known."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def program(pid: int, proc: Path = PROC) -> str:
    """What a process runs, in a word or two, e.g. `lab console attach`; empty: it is gone."""
    try:
        words = (proc / str(pid) / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")[:-1]
        if not words:
            return (proc / str(pid) / "comm").read_text("utf-8", "replace").strip()
    except OSError:
        return ""
    if Path(words[0]).name.startswith("python"):
        words = _script(words[1:]) or words[:1]
    plain = [word for word in words[1:3] if word.isalpha()]
    return " ".join([Path(words[0]).name, *plain])[:_PROGRAM_CHARACTERS]


def described(pid: int, proc: Path = PROC) -> str:
    """For a message: `ada (lab console attach, pid 4711)`."""
    who, what = person(pid, proc), program(pid, proc)
    inside = ", ".join(part for part in (what, f"pid {pid}") if part)
    return f"{who} ({inside})" if who else f"pid {pid}"


def _script(words: list[str]) -> list[str]:
    """What an interpreter of Python was given to run: a file, or `-m MODULE`."""
    for at, word in enumerate(words):
        if word == "-m":
            return words[at + 1 :]
        if word == "-c":
            return []
        if not word.startswith("-"):
            return words[at:]
    return []
