"""Whether what booted is the release: what the board says of itself, beside what the release file expects."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Final

from attrs import asdict

from lab.provision.release import Expected

# What is asked at the prompt -> the command; U-Boot's and the kernel's lines are read on the way to it.
QUESTIONS: Final = {"build_id": "cat /etc/os-release", "buildinfo": "cat /etc/buildinfo /etc/build"}
_TITLES: Final = {
    "uboot": "U-Boot's version line",
    "kernel": "the kernel's version line",
    "build_id": "BUILD_ID of /etc/os-release",
    "buildinfo": "/etc/buildinfo",
}


def document(expected: Expected) -> dict[str, str]:
    """What is compared, by name, as the record of a write has it."""
    return {name: pattern for name, pattern in asdict(expected).items() if pattern}


def expected(document: Mapping[str, str]) -> Expected | None:
    """What is compared, from the record of a write; None: it has nothing that can be compared."""
    try:
        return Expected(**document)
    except (TypeError, ValueError):
        return None


def questions(expected: Expected) -> dict[str, str]:
    """What has to be asked at the prompt for the comparison: name -> command."""
    return {name: command for name, command in QUESTIONS.items() if getattr(expected, name)}


def answer(name: str, output: str) -> str:
    """What an answer says: BUILD_ID out of os-release(5), else the text itself."""
    if name != "build_id":
        return output
    for line in output.splitlines():
        key, _, value = line.strip().partition("=")
        if key == "BUILD_ID":
            try:
                return " ".join(shlex.split(value))
            except ValueError:  # a quote that does not end
                return value
    return ""


def differences(expected: Expected, said: Mapping[str, str]) -> list[str]:
    """In what a board that booted is not the release, one phrase each; what is expected and was not said counts."""
    return [
        f"{_TITLES[name]} is {said.get(name, '').strip()[:120]!r}, expected {pattern!r}"
        if said.get(name)
        else f"{_TITLES[name]} was not seen, expected {pattern!r}"
        for name, pattern in asdict(expected).items()
        if pattern and not re.search(pattern, said.get(name, ""))
    ]
