"""What to try when the lab of an environment cannot be reached."""

from __future__ import annotations

from typing import Any

from lab import boards, shipped


def hint(env: Any) -> str:
    """How to bring up the bench of a virtual board, in parentheses; empty for the environment of a real one.

    Args:
        env: labgrid's Environment.
    """
    main = env.config.get_targets().get("main") or {}
    name = _entry(main.get("drivers"), "BoardStrategy").get("board_type")
    if name not in boards.names() or _entry(main.get("resources"), "PDUDaemonPort").get("pdu") != shipped.BENCH_PDU:
        return ""
    words = "" if boards.load(name).virtual else f" sim --type {name}"
    return f" (is the virtual board up? start it with: lab virtual up{words})"


def _entry(entries: Any, kind: str) -> dict[str, Any]:
    """The first of this kind in an env's list or mapping of resources or drivers; {} where there is none."""
    for entry in entries if isinstance(entries, list) else [entries or {}]:
        if kind in entry:
            return dict(entry[kind] or {})
    return {}
