"""The committed dashboards, and their queries as Grafana would send them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from attrs import frozen

FOLDER: Final = Path(__file__).resolve().parents[2] / "farm" / "grafana" / "dashboards"
ALL: Final = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}
_GRAFANAS: Final = {"__rate_interval": "1m", "__interval": "1m", "__range": "1h"}


@frozen
class Query:
    """A query of a panel, a variable or an annotation; `where` names it."""

    where: str
    expression: str


def panels(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    """The panels, without rows."""
    found: list[dict[str, Any]] = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    return found


def variables(dashboard: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Name -> variable."""
    return {variable["name"]: variable for variable in dashboard["templating"]["list"]}


def queries(name: str) -> Iterator[Query]:
    """Every query of a dashboard, with all values of each variable selected."""
    dashboard = ALL[name]
    values = {key: variable.get("allValue") or ".+" for key, variable in variables(dashboard).items()}
    for panel in panels(dashboard):
        for target in panel["targets"]:
            yield Query(f"{name}: {panel['title']} {target['refId']}", filled(target["expr"], values))
    for key, variable in variables(dashboard).items():
        if variable["type"] == "query":
            yield Query(f"{name}: variable {key}", filled(_of_variable(variable["query"]), values))
    for annotation in dashboard["annotations"].get("list", []):
        yield Query(f"{name}: annotation {annotation['name']}", filled(annotation["expr"], values))


def filled(expression: str, values: dict[str, str]) -> str:
    """An expression with its variables filled in; an unknown one is an error."""
    known = {**_GRAFANAS, **values}
    return re.sub(r"\$([A-Za-z_]\w*)", lambda match: known[match[1]], expression)


def _of_variable(query: str) -> str:
    inner = re.fullmatch(r"(label_values|query_result)\((.*)\)", query, re.DOTALL)
    assert inner is not None, query
    return inner[2].rpartition(", ")[0] if inner[1] == "label_values" else inner[2]
