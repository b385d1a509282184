"""A database server whose host is gone without a word is noticed: the kernel is asked to look after its connection."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event

from lab.results import database
from lab.results.location import locate

URL = "postgresql://lab@127.0.0.1:1/results"


class ConnectedError(Exception):
    """As far as the test goes."""


@pytest.mark.parametrize(
    "kind", [lambda where: database.create(where, 5.0), lambda where: database.watching(where, 5.0)]
)
def test_its_connections_end_within_a_minute_unless_the_url_says_otherwise(kind: Any) -> None:
    seen: dict[str, Any] = {}

    def connect(_dialect: object, _record: object, _words: object, parameters: dict[str, Any]) -> None:
        seen.update(parameters)
        raise ConnectedError

    made = kind(locate(f"{URL}?keepalives_idle=7"))
    event.listen(made, "do_connect", connect)
    with pytest.raises(ConnectedError):
        made.connect()
    idle_s, rest_s = int(seen["keepalives_idle"]), seen["keepalives_interval"] * seen["keepalives_count"]
    assert (idle_s, rest_s, seen["tcp_user_timeout"]) == (7, 30, 60_000)
