"""Column types that mean the same on SQLite and PostgreSQL."""

from __future__ import annotations

import datetime as dt
import functools
import json
import math
from collections.abc import Mapping
from typing import Any

from sqlalchemy import JSON, BigInteger, DateTime, Dialect, Double, Integer, Text, TypeDecorator


class DamagedSchemaError(Exception):
    """A database's note of its schema cannot be understood."""


class DamagedValueError(ValueError):
    """A value is not of its column's type: the file was damaged, or somebody else wrote it."""


def _damaged(wanted: str, value: object) -> DamagedValueError:
    shown = repr(value)
    return DamagedValueError(f"expected {wanted}, found {shown[:60]}")


class Words(TypeDecorator[str]):
    """Text; SQLite keeps any type in any column (sqlite.org/datatype3.html), and a damaged file has any."""

    impl = Text
    cache_ok = True

    def process_result_value(self, value: object, dialect: Dialect) -> str | None:  # noqa: ARG002
        if value is not None and not isinstance(value, str):
            raise _damaged("text", value)
        return value


class Whole(TypeDecorator[int]):
    """A whole number."""

    impl = Integer
    cache_ok = True

    def process_result_value(self, value: object, dialect: Dialect) -> int | None:  # noqa: ARG002
        if value is not None and not isinstance(value, int):
            raise _damaged("a whole number", value)
        return value


class LargeWhole(Whole):
    """A whole number beyond 32 bits."""

    impl = BigInteger
    cache_ok = True


class FloatColumn(TypeDecorator[float]):
    """A finite number."""

    impl = Double
    cache_ok = True

    def process_result_value(self, value: object, dialect: Dialect) -> float | None:  # noqa: ARG002
        if value is None:
            return None
        if not isinstance(value, (int, float)) or not math.isfinite(value):
            raise _damaged("a number", value)
        return float(value)


class JsonObject(TypeDecorator[Mapping[str, Any]]):
    """A JSON object."""

    impl = JSON
    cache_ok = True

    def process_result_value(self, value: object, dialect: Dialect) -> dict[str, Any] | None:  # noqa: ARG002
        if value is not None and not isinstance(value, dict):
            raise _damaged("a JSON object", value)
        return value


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


class ConsoleTextColumn(TypeDecorator[str]):
    """Text that may come from a console: NUL, which PostgreSQL refuses, and lone surrogates are written out."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        if value is None:
            return None
        return value.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")

    def process_result_value(self, value: object, dialect: Dialect) -> str | None:  # noqa: ARG002
        if value is not None and not isinstance(value, str):
            raise _damaged("text", value)
        return value


class Params(TypeDecorator[Mapping[str, str]]):
    """Parameters as JSON with sorted keys, so that equal ones are equal texts and can be unique."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Mapping[str, str] | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else json.dumps(dict(value), sort_keys=True, separators=(",", ":"))

    def process_result_value(self, value: str | None, dialect: Dialect) -> dict[str, str] | None:  # noqa: ARG002
        return None if value is None else dict(_pairs(value))


class Flags(TypeDecorator[frozenset[str]]):
    """A set of flags as their sorted names with blanks between them."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: frozenset[str] | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else " ".join(sorted(value))

    def process_result_value(self, value: str | None, dialect: Dialect) -> frozenset[str] | None:  # noqa: ARG002
        if value is not None and not isinstance(value, str):
            raise _damaged("names of flags", value)
        return None if value is None else frozenset(value.split())


@functools.lru_cache(maxsize=1024)
def _pairs(text: object) -> tuple[tuple[str, str], ...]:
    """Parameters of their text; a history has the same ones again and again."""
    found = json.loads(text) if isinstance(text, str) else None
    if not isinstance(found, dict):
        raise _damaged("a JSON object", text)
    return tuple((str(key), str(value)) for key, value in found.items())
