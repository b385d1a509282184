"""What is wrong with a key of farm.yaml, in the words of whoever wrote it."""

from __future__ import annotations

from difflib import get_close_matches

import cattrs
from attrs import AttrsInstance, fields
from cattrs.v import format_exception

from lab.run import options

_OPTIONS = "options"  # a record with this field has the options of `lab run` as keys of its own


def reason(error: BaseException, kind: type | None) -> str:
    """What cattrs found, without its place."""
    if isinstance(error, cattrs.ForbiddenExtraKeysError):
        return "; ".join(_unknown(key, error.cl) for key in sorted(error.extra_fields, key=repr))
    if isinstance(error, KeyError):
        return "this key is missing; add it"
    if isinstance(error, ValueError) and str(error):
        return str(error.args[0])  # attrs gives its own three more
    return format_exception(error, kind)


def _unknown(key: object, record: type[AttrsInstance]) -> str:
    if not isinstance(key, str):
        return f"expected text as a key, got {key!r:.60}; put it in quotes, or delete it"
    known = [each.name for each in fields(record)]
    if _OPTIONS in known:
        known = [*(name for name in known if name != _OPTIONS), *options.NAMES]
    near = get_close_matches(key, known, 1)
    return f"no key {key!r} here; " + (f"is {near[0]!r} meant?" if near else f"there are: {', '.join(known)}")
