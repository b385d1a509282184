"""What a reader finds in a file, before its tables become cells."""

from __future__ import annotations

from attrs import define, field

from lab.guide.assemble import RawTable
from lab.guide.model import Condition, Module, Unread


@define
class Document:
    """What a file says, in its order; the readers fill it."""

    title: str = ""
    tables: list[RawTable] = field(factory=list)
    modules: list[Module] = field(factory=list)
    conditions: list[Condition] = field(factory=list)
    unread: list[Unread] = field(factory=list)
