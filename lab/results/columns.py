"""Column types that mean the same on SQLite and PostgreSQL."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping

from sqlalchemy import DateTime, Dialect, Text, TypeDecorator


class UtcDateTime(TypeDecorator[dt.datetime]):
    """A wall time; aware on both sides, UTC in the database (SQLite keeps no time zone)."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:  # noqa: ARG002
        return None if value is None else value.astimezone(dt.UTC)

    def process_result_value(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:  # noqa: ARG002
        if value is None:
            return None
        return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)


class ConsoleText(TypeDecorator[str]):
    """Text that may come from a console: NUL, which PostgreSQL refuses, and lone surrogates are written out."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        if value is None:
            return None
        return value.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return value


class Params(TypeDecorator[Mapping[str, str]]):
    """Parameters as JSON with sorted keys, so that equal ones are equal texts and can be unique."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Mapping[str, str] | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else json.dumps(dict(value), sort_keys=True, separators=(",", ":"))

    def process_result_value(self, value: str | None, dialect: Dialect) -> dict[str, str] | None:  # noqa: ARG002
        if value is None:
            return None
        return {str(key): str(text) for key, text in json.loads(value).items()}


class Flags(TypeDecorator[frozenset[str]]):
    """A set of flags as their sorted names with blanks between them."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: frozenset[str] | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else " ".join(sorted(value))

    def process_result_value(self, value: str | None, dialect: Dialect) -> frozenset[str] | None:  # noqa: ARG002
        return None if value is None else frozenset(value.split())
