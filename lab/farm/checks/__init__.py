"""Checks of a lab's hosts, results, services and files; each yields findings."""

from __future__ import annotations

from typing import Literal, Self

from attrs import frozen

Level = Literal["bad", "doubtful", "ok"]


@frozen
class Finding:
    """One thing that a check looked at.

    Attributes:
        area: e.g. "ports".
        subject: what of it, e.g. "/dev/ttyUSB0".
        level: "bad": measuring fails, or its numbers are wrong; "doubtful": it works, and could be better.
        said: the state.
        hint: its remedy; empty: none, or `said` has it.
    """

    area: str
    subject: str
    level: Level
    said: str
    hint: str = ""

    @classmethod
    def of_text(cls, area: str, level: Level, text: str) -> Self:
        """A sentence that begins with its place and a colon."""
        subject, _, statement = text.partition(": ")
        return cls(area, subject, level, statement)

    @classmethod
    def of_error(cls, area: str, subject: str, error: Exception) -> Self:
        """An error whose remedy is behind its semicolon."""
        statement, _, hint = str(error).partition("; ")
        return cls(area, subject, "bad", statement, hint)

    def __str__(self) -> str:
        """In one line."""
        statement = f"{self.subject}: {self.said}" if self.said else self.subject
        return f"{statement}; {self.hint}" if self.hint else statement
