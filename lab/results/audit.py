"""The audit log of actions, which can only be appended to, and comments on boards."""

from __future__ import annotations

import csv
import datetime as dt
import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from attrs import asdict, define, field, fields, frozen
from sqlalchemy import select
from sqlalchemy.orm import Session

from lab.errors import BoardlabError, ConfigurationError
from lab.host.clock import utc_now
from lab.results.models import AuditRow, CommentRow
from lab.results.rows import record_of, select_fields
from lab.results.store import Store

DONE: Final = "done"
LONGEST_COMMENT: Final = 4000  # characters
_LONGEST: Final = 1000  # characters of a field of an entry; longer texts are cut
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet takes a cell that begins so for a formula


@frozen
class Entry:
    """An entry of the audit log, i.e. one action.

    Attributes:
        person: name of the person; empty: unknown.
        address: address that the request came from.
        action: e.g. "reserve", "power", "login".
        about: further object of the action, e.g. the job "j12".
        outcome: `DONE`, or the reason why it was not done.
    """

    id: int
    at: dt.datetime
    person: str
    address: str
    action: str
    board: str
    about: str
    outcome: str


@define
class Act:
    """An action in progress; `about` can be set during it, e.g. to the number of the new job."""

    about: str = field(default="", kw_only=True)


Acting = TypeVar("Acting", bound=Act)


@frozen
class Comment:
    """A person's comment on a board."""

    id: int
    board: str
    person: str
    text: str
    at: dt.datetime


@frozen
class Audit:
    """The audit log of a store, and the comments on its boards."""

    store: Store
    now: Callable[[], dt.datetime] = field(default=utc_now)

    def note(
        self, action: str, *, person: str, address: str = "", board: str = "", about: str = "", outcome: str = DONE
    ) -> None:
        """Append an entry; its texts are cut to `_LONGEST` characters."""
        texts = {
            "person": person,
            "address": address,
            "action": action,
            "board": board,
            "about": about,
            "outcome": outcome,
        }
        columns = {name: text[:_LONGEST].replace("\0", "\ufffd") for name, text in texts.items()}

        def insert(session: Session) -> None:
            session.add(AuditRow(at=self.now(), **columns))

        self.store.write(insert)

    @contextmanager
    def acting(self, act: Acting, action: str, *, person: str, address: str = "", board: str = "") -> Iterator[Acting]:
        """Append an entry with the action's outcome when the block ends or fails."""
        context = {"person": person, "address": address, "board": board}
        try:
            yield act
        except BoardlabError as error:
            self.note(action, about=act.about, outcome=str(error), **context)
            raise
        except Exception as error:
            self.note(action, about=act.about, outcome=f"failed: {error or type(error).__name__}", **context)
            raise
        self.note(action, about=act.about, **context)

    def entries(
        self,
        *,
        board: str = "",
        person: str = "",
        action: str = "",
        before: int | None = None,
        limit: int | None = None,
    ) -> list[Entry]:
        """Return entries, the newest first; empty arguments match all.

        Args:
            before: only entries with a smaller id.
            limit: number of entries at most; None: all.
        """
        conditions = ((AuditRow.board, board), (AuditRow.person, person), (AuditRow.action, action))
        query = select_fields(AuditRow, Entry).where(*(column == value for column, value in conditions if value))
        if before is not None:
            query = query.where(AuditRow.id < before)
        newest = query.order_by(AuditRow.id.desc()).limit(limit)
        return [Entry(*row) for row in self.store.rows(newest)]

    def comment(self, board: str, person: str, text: str) -> Comment:
        """Store a person's comment on a board.

        Raises:
            ConfigurationError: the text is empty or too long.
        """
        text = text.strip()
        if not text or len(text) > LONGEST_COMMENT:
            raise ConfigurationError(f"a comment has between 1 and {LONGEST_COMMENT} characters; this has {len(text)}")

        def insert(session: Session) -> Comment:
            row = CommentRow(board=board, person=person, text=text, at=self.now())
            session.add(row)
            session.flush()
            return record_of(Comment, row)

        return self.store.write(insert)

    def comments(self, board: str, limit: int = 50) -> list[Comment]:
        """Return the latest comments on a board, the newest first."""
        query = select_fields(CommentRow, Comment).where(CommentRow.board == board)
        return [Comment(*row) for row in self.store.rows(query.order_by(CommentRow.id.desc()).limit(limit))]


def last_done(session: Session, action: str) -> dt.datetime | None:
    """Return the time when this action was last done; None: never."""
    query = select(AuditRow.at).where(AuditRow.action == action, AuditRow.outcome == DONE)
    return session.scalars(query.order_by(AuditRow.id.desc()).limit(1)).first()


def document(entry: Entry) -> dict[str, Any]:
    """Return an entry for JSON."""
    return {**asdict(entry), "at": entry.at.isoformat()}


def as_csv(entries: Iterable[Entry]) -> str:
    """Return entries as CSV (RFC 4180) with a header, safe for spreadsheets."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([column.name for column in fields(Entry)])
    for entry in entries:
        writer.writerow([cell(value) for value in document(entry).values()])
    return text.getvalue()


def cell(value: object) -> object:
    """Return a CSV cell that a spreadsheet does not take for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
