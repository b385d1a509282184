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
    """A database's schema revision cannot be read."""


class DamagedValueError(ValueError):
    """A stored value does not have its column's type, by damage or by a foreign writer."""


def _damage_error(expected: str, value: object) -> DamagedValueError:
    """Return the error of a value of another type than expected."""
    text = repr(value)
    return DamagedValueError(f"expected {expected}, found {text[:60]}")


class Words(TypeDecorator[str]):
    """Text.

    The type is checked when it is read: SQLite stores any type in any column (sqlite.org/datatype3.html).
    """

    impl = Text
    cache_ok = True

    def process_result_value(self, value: object, dialect: Dialect) -> str | None:  # noqa: ARG002
        if value is not None and not isinstance(value, str):
            raise _damage_error("text", value)
        return value


class Whole(TypeDecorator[int]):
    """A whole number."""

    impl = Integer
    cache_ok = True

    def process_result_value(self, value: object, dialect: Dialect) -> int | None:  # noqa: ARG002
        if value is not None and not isinstance(value, int):
            raise _damage_error("a whole number", value)
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
            raise _damage_error("a number", value)
        return float(value)


class JsonObject(TypeDecorator[Mapping[str, Any]]):
    """A JSON object."""

    impl = JSON
    cache_ok = True

    def process_result_value(self, value: object, dialect: Dialect) -> dict[str, Any] | None:  # noqa: ARG002
        if value is not None and not isinstance(value, dict):
            raise _damage_error("a JSON object", value)
        return value


class UtcDateTime(TypeDecorator[dt.datetime]):
    """A time-zone-aware wall time, stored as UTC (SQLite has no zone)."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:  # noqa: ARG002
        return None if value is None else value.astimezone(dt.UTC)

    def process_result_value(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:  # noqa: ARG002
        if value is None:
            return None
        return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)


class ConsoleTextColumn(TypeDecorator[str]):
    """Console text; NUL, which PostgreSQL refuses, and lone surrogates are stored as escapes."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        if value is None:
            return None
        return value.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")

    def process_result_value(self, value: object, dialect: Dialect) -> str | None:  # noqa: ARG002
        if value is not None and not isinstance(value, str):
            raise _damage_error("text", value)
        return value


class Params(TypeDecorator[Mapping[str, str]]):
    """Parameters as JSON with sorted keys: equal ones are equal texts."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Mapping[str, str] | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else json.dumps(dict(value), sort_keys=True, separators=(",", ":"))

    def process_result_value(self, value: str | None, dialect: Dialect) -> dict[str, str] | None:  # noqa: ARG002
        return None if value is None else dict(_pairs(value))


class Flags(TypeDecorator[frozenset[str]]):
    """A set of flags, stored as their sorted names with blanks between them."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: frozenset[str] | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else " ".join(sorted(value))

    def process_result_value(self, value: str | None, dialect: Dialect) -> frozenset[str] | None:  # noqa: ARG002
        if value is not None and not isinstance(value, str):
            raise _damage_error("names of flags", value)
        return None if value is None else frozenset(value.split())


@functools.lru_cache(maxsize=1024)
def _pairs(text: object) -> tuple[tuple[str, str], ...]:
    """Parse parameters; the results are cached, since a history repeats the same texts."""
    params = json.loads(text) if isinstance(text, str) else None
    if not isinstance(params, dict):
        raise _damage_error("a JSON object", text)
    return tuple((str(key), str(value)) for key, value in params.items())
