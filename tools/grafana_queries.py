"""What a dashboard asks, put to a Prometheus as Grafana puts it: variables, intervals, repeated panels, links.

This part of Grafana is in its server only, so it is written again here, as far as our dashboards need it.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import requests
from attrs import field, frozen

ALL: Final = "$__all"
_POINTS: Final = 400  # of a line; a panel is about so many pixels wide
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}
_VARIABLE: Final = re.compile(r"\$([A-Za-z_]\w*)|\$\{(\w+)\}")
_REGEX: Final = re.compile(r"[\\^$*+?.()|{}\[\]/]")

Values = dict[str, list[str]]


@frozen
class View:
    """What a person looks at.

    Attributes:
        url: of Prometheus. at: the end of the time range, in seconds since 1970. scrape_s: between two scrapes.
    """

    url: str
    at: float
    span_s: float = 7 * 86400.0
    scrape_s: float = 15.0
    _session: requests.Session = field(factory=requests.Session, init=False)

    def get(self, path: str, params: Mapping[str, object]) -> Any:
        """The data of an answer.

        Raises:
            ValueError: Prometheus refuses the question.
        """
        self._session.trust_env = False
        answer = self._session.post(f"{self.url}/api/v1/{path}", data=params, timeout=60).json()
        if answer["status"] != "success":
            raise ValueError(f"{params}: {answer}")
        return answer["data"]

    @property
    def step_s(self) -> float:
        """Between two points of a line."""
        return max(self.scrape_s, round(self.span_s / _POINTS / self.scrape_s) * self.scrape_s)


def drawing(
    dashboard: Mapping[str, Any], view: View, chosen: Mapping[str, Sequence[str]], others: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """A dashboard with all that Prometheus answered, for tools/grafana/page.jsx.

    Args:
        chosen: values of variables that are not as they are at first. others: the dashboards of the list of links.
    """
    listed = dashboard["templating"]["list"]
    shown: Values = {}  # as they stand in a URL
    asked: Values = {}  # as they stand in a query
    for variable in listed:
        name = variable["name"]
        if variable["type"] == "datasource":
            shown[name], asked[name] = ["prometheus"], ["prometheus"]
            continue
        if variable["type"] != "query":
            shown[name] = asked[name] = [*chosen.get(name, [str(variable["query"])])]
            continue
        there = _values(variable, view, asked)
        if name in chosen:
            shown[name] = asked[name] = [*chosen[name]]
        elif variable.get("includeAll"):
            shown[name], asked[name] = [ALL], [variable["allValue"]]
        else:
            shown[name] = asked[name] = there[:1] or [""]
        variable_there = there
        if variable.get("includeAll") and shown[name] == [ALL]:
            asked[f"{name} of all"] = variable_there
    panels = list(_laid_out(dashboard["panels"], asked))
    for one in panels:
        scoped = {name: [value["value"]] for name, value in one["scoped"].items()}
        one["targets"] = [_answered(target, view, {**asked, **scoped}) for target in one["panel"].get("targets", [])]
    names = [f"{v.get('label') or v['name']}: {' + '.join(shown[v['name']])}" for v in listed if v["type"] == "query"]
    return {
        "title": dashboard["title"],
        "chosen": "   ".join(names).replace(ALL, "All"),
        "from": view.at - view.span_s,
        "to": view.at,
        "raw": {"from": "now-7d", "to": "now"},
        "variables": shown,
        "panels": panels,
        "annotations": [
            _annotated(one, view, asked) for one in dashboard["annotations"].get("list", []) if one["enable"]
        ],
        "links": list(_links(dashboard, others)),
    }


def _links(dashboard: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, str]]:
    for link in dashboard.get("links", []):
        kept = [
            *(["${__all_variables}"] if link["includeVars"] else []),
            *(["${__url_time_range}"] if link["keepTime"] else []),
        ]
        if link["type"] == "link":
            yield {"title": link["title"], "url": link["url"]}
            continue
        for other in others:
            if set(link["tags"]) <= set(other["tags"]):
                yield {"title": other["title"], "url": f"/d/{other['uid']}?{'&'.join(kept)}"}


def _values(variable: Mapping[str, Any], view: View, asked: Values) -> list[str]:
    query = variable["query"]["query"] if isinstance(variable["query"], dict) else variable["query"]
    function, _, inner = query.rstrip(")").partition("(") if query.startswith("label_values") else ("", "", "")
    span = {"start": view.at - view.span_s, "end": view.at}
    if function:
        selector, _, label = inner.rpartition(", ")
        found = view.get(
            "query",
            {
                "query": f"group by ({label}) (last_over_time({filled(selector, asked)}[{view.span_s:.0f}s]))",
                "time": view.at,
            },
        )
        return sorted(one["metric"][label] for one in found["result"] if label in one["metric"])
    expression = filled(query.removeprefix("query_result(")[:-1], asked)
    found = view.get("query", {"query": expression, "time": span["end"]})["result"]
    texts = [f"{_written(one['metric'])} {one['value'][1]} {one['value'][0]}" for one in found]
    wanted = re.compile(variable["regex"].strip("/")) if variable.get("regex") else None
    matches = [text if wanted is None else (m[1] if (m := wanted.search(text)) else None) for text in texts]
    return sorted({match for match in matches if match is not None})


def _written(metric: Mapping[str, str]) -> str:
    inner = ",".join(f'{name}="{value}"' for name, value in metric.items() if name != "__name__")
    return f"{metric.get('__name__', '')}{{{inner}}}"


def filled(expression: str, values: Mapping[str, Sequence[str]]) -> str:
    """An expression with its variables filled in, several values as alternatives.

    Raises:
        KeyError: there is no such variable.
    """

    def one(match: re.Match[str]) -> str:
        found = values[match[1] or match[2]]
        if len(found) == 1:
            return found[0]
        return f"({'|'.join(_REGEX.sub(lambda m: chr(92) * 2 + m[0], value) for value in found)})"

    return _VARIABLE.sub(one, expression)


def _answered(target: Mapping[str, Any], view: View, values: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    times = {
        "__rate_interval": [f"{max(view.step_s + view.scrape_s, 4 * view.scrape_s):.0f}s"],
        "__interval": [f"{view.step_s:.0f}s"],
        "__range": [f"{view.span_s:.0f}s"],
    }
    expression = filled(target["expr"], {**values, **times})
    instant = bool(target.get("instant"))
    if instant:
        answer = view.get("query", {"query": expression, "time": view.at})
    else:
        start = (view.at - view.span_s) // view.step_s * view.step_s
        answer = view.get("query_range", {"query": expression, "start": start, "end": view.at, "step": view.step_s})
    result = answer["result"]
    if answer["resultType"] == "scalar":
        result = [{"metric": {}, "value": result}]
    return {
        "refId": target["refId"],
        "format": target.get("format", "time_series"),
        "legend": target.get("legendFormat", ""),
        "instant": instant,
        "step": view.step_s,
        "result": result,
    }


def _annotated(annotation: Mapping[str, Any], view: View, values: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    step_s = _SECONDS[annotation["step"][-1]] * float(annotation["step"][:-1])
    asked = {
        "query": filled(annotation["expr"], values),
        "start": (view.at - view.span_s) // step_s * step_s,
        "end": view.at,
        "step": step_s,
    }
    return {
        "name": annotation["name"],
        "color": annotation["iconColor"],
        "title": annotation["titleFormat"],
        "text": annotation["textFormat"],
        "step": step_s,
        "result": view.get("query_range", asked)["result"],
    }


def _laid_out(panels: Sequence[Mapping[str, Any]], asked: Values) -> Iterator[dict[str, Any]]:
    """The panels as they stand: those that are repeated once for each value, and what is below them moved down."""
    moved = 0
    for panel in sorted(panels, key=lambda one: (one["gridPos"]["y"], one["gridPos"]["x"])):
        if panel["type"] == "row":
            continue
        name = panel.get("repeat")
        if not name:
            yield _placed(panel, panel["gridPos"]["x"], panel["gridPos"]["y"] + moved, panel["gridPos"]["w"], {})
            continue
        values = asked.get(f"{name} of all", asked[name])
        if not values:  # nothing to repeat it for
            yield _placed(panel, 0, panel["gridPos"]["y"] + moved, 24, {})
            continue
        columns = min(len(values), panel.get("maxPerRow", 4))
        wide, high = 24 // columns, panel["gridPos"]["h"]
        for index, value in enumerate(values):
            row, column = divmod(index, columns)
            y = panel["gridPos"]["y"] + moved + row * high
            yield _placed(panel, column * wide, y, wide, {name: {"text": value, "value": value}})
        moved += ((len(values) - 1) // columns) * high


def _placed(panel: Mapping[str, Any], x: int, y: int, w: int, scoped: dict[str, dict[str, str]]) -> dict[str, Any]:
    made = copy.deepcopy({**panel, "gridPos": {**panel["gridPos"], "x": x, "y": y, "w": w}})
    key = " ".join([str(panel["id"]), *(one["value"] for one in scoped.values())])
    return {"panel": made, "key": key, "scoped": scoped}
