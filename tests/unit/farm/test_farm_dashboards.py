"""The dashboards: up to date, sound by Grafana's schema, and as its linter wants them.

The rules are those of github.com/grafana/dashboard-linter, which cannot be built here; each is told by its name there.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import build as grafana_build
import jsonschema
import pytest
import yaml
from support import dashboards
from support.dashboards import ALL, FOLDER, filled, panels, queries, variables

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = json.loads((ROOT / "tests/fixtures/grafana/dashboard.schema.json").read_text(encoding="utf-8"))
# What the schema of a generic dashboard does not have: the SDK's fields of interval variables, which Grafana ignores on
# others, and the fields that the Prometheus data source reads in an annotation.
ALLOWED = {"auto", "auto_count", "auto_min", "expr", "step", "titleFormat", "textFormat"}
UNITS = {
    "suffix: B/s",
    "none",
    "string",
    "short",
    "s",
    "percentunit",
    "watt",
    "joule",
    "hertz",
    "bytes",
    "Bps",
}  # ids of @grafana/data's getValueFormats
COUNTER = re.compile(r"(?:[a-z_]+_total|[a-z_]+_bucket)")

every = pytest.mark.parametrize("name", sorted(ALL))


def test_the_committed_files_are_what_the_code_makes() -> None:
    assert {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()} == grafana_build.texts()


def test_there_is_a_dashboard_for_each_purpose() -> None:
    assert set(ALL) == {f"boardlab-{name}" for name in ("overview", "board", "boot", "power", "benchmarks", "health")}


@every
def test_it_fits_grafanas_schema(name: str) -> None:
    wrong = []
    for error in jsonschema.Draft7Validator(SCHEMA).iter_errors(ALL[name]):
        extra = set(re.findall(r"'(\w+)'", error.message)) if error.validator == "additionalProperties" else {"?"}
        if not extra <= ALLOWED:
            wrong.append(f"{list(error.path)}: {error.message}")
    assert wrong == []


def test_the_schema_would_notice_a_wrong_type() -> None:
    broken = json.loads(json.dumps(ALL["boardlab-boot"]))
    broken["panels"][0]["gridPos"]["h"] = "high"
    assert list(jsonschema.Draft7Validator(SCHEMA).iter_errors(broken))


@every
def test_template_datasource_rule(name: str) -> None:
    source = variables(ALL[name])["datasource"]
    assert (source["type"], source["query"], source["label"]) == ("datasource", "prometheus", "Data source")


@every
@pytest.mark.parametrize("label", ["job", "instance"])
def test_template_job_and_instance_rules(name: str, label: str) -> None:
    variable = variables(ALL[name])[label]
    assert variable["datasource"]["uid"] == "${datasource}"
    assert (variable["type"], variable["multi"], variable["allValue"]) == ("query", True, ".+")
    assert variable["label"] == label.capitalize()


@every
def test_template_on_time_change_reload_rule(name: str) -> None:
    assert {v["refresh"] for v in variables(ALL[name]).values() if v["type"] == "query"} == {2}


@every
def test_template_label_rule(name: str) -> None:
    assert all(variable["label"] for variable in variables(ALL[name]).values())


@every
def test_uneditable_and_unique_uid_rules(name: str) -> None:
    assert ALL[name]["editable"] is False
    assert ALL[name]["uid"] == name
    ids = [panel["id"] for panel in ALL[name]["panels"]]
    assert len(set(ids)) == len(ids)


@every
def test_panel_datasource_title_description_and_units_rules(name: str) -> None:
    for panel in panels(ALL[name]):
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
    titles = [panel["title"] for panel in panels(ALL[name])]
    assert len(set(titles)) == len(titles)


@every
def test_panel_no_targets_and_target_ref_id_rules(name: str) -> None:
    for panel in panels(ALL[name]):
        letters = [target["refId"] for target in panel["targets"]]
        assert letters
        assert len(set(letters)) == len(letters)
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}


def selectors(expression: str) -> list[str]:
    """Name and matchers of each series that is asked for."""
    return re.findall(r"(?:boardlab_\w+)?\{[^}]*\}", expression)


@every
def test_target_job_and_instance_rules(name: str) -> None:
    for panel in panels(ALL[name]):
        for target in panel["targets"]:
            if "ALERTS{" in target["expr"]:  # not every alert has these labels
                assert 'job=~"$job|",instance=~"$instance|"' in target["expr"]
                continue
            found = selectors(target["expr"])
            assert found
            assert len(found) == len(re.findall(r"boardlab_\w+(?![\w(])|__name__=~", target["expr"])), target["expr"]
            assert all('job=~"$job"' in one and 'instance=~"$instance"' in one for one in found), target["expr"]


@every
def test_target_rate_interval_and_counter_agg_rules(name: str) -> None:
    for panel in panels(ALL[name]):
        for target in panel["targets"]:
            expression = target["expr"]
            counters = len(re.findall(COUNTER.pattern + r"(?=\{)", expression))
            in_rates = len(re.findall(r"(?:rate|increase)\((?:" + COUNTER.pattern + r")\{", expression))
            ever = "of all time" in panel["title"]
            since_then = " offset " in expression  # a difference is an increase, and cheaper over days
            assert counters == in_rates or since_then or expression.startswith("count(") or ever, expression
            windows = {"$__rate_interval", "$__range", "1d", "7d"} | ({"1h"} if since_then else set())
            for window in re.findall(r"\}\[([^\]]+)\]", expression):
                assert window in windows, expression  # whole days where the panel says so


@every
def test_every_panel_says_its_colours_and_what_stands_there_when_there_is_nothing(name: str) -> None:
    for panel in panels(ALL[name]):
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["noValue"], panel["title"]
        if panel["type"] != "heatmap":  # else Grafana's own: green, and red from 80 on
            assert defaults["thresholds"]["steps"], panel["title"]


@every
def test_links_between_dashboards_keep_the_variables(name: str) -> None:
    (link,) = ALL[name]["links"]
    assert (link["includeVars"], link["keepTime"]) == (True, True)


@every
def test_lines_have_their_names_below_and_are_few(name: str) -> None:
    for panel in panels(ALL[name]):
        if panel["type"] == "timeseries":
            assert panel["options"]["legend"]["showLegend"], panel["title"]  # the SDK hides it where nobody says so
            of_boards = [
                t["expr"]
                for t in panel["targets"]
                if "{{board}}" in t["legendFormat"] or "{{port}}" in t["legendFormat"]
            ]
            assert all("topk(" in expression for expression in of_boards), panel["title"]


@every
def test_every_variable_of_a_query_is_there(name: str) -> None:
    for query in queries(name):
        assert not re.search(r"\$[A-Za-z_{]", query.expression)  # $1 is label_replace's
    with pytest.raises(KeyError):
        filled('up{a=~"$nobody"}', {})


@every
def test_panels_do_not_overlap(name: str) -> None:
    taken: dict[tuple[int, int], Any] = {}
    for panel in panels(ALL[name]):
        box = panel["gridPos"]
        assert box["x"] + box["w"] <= 24
        for cell in (
            (x, y) for x in range(box["x"], box["x"] + box["w"]) for y in range(box["y"], box["y"] + box["h"])
        ):
            assert taken.setdefault(cell, panel["title"]) == panel["title"]


def test_the_provisioning_files_name_what_is_there() -> None:
    folder = ROOT / "farm" / "grafana" / "provisioning"
    (provider,) = yaml.safe_load((folder / "dashboards" / "boardlab.yaml").read_text())["providers"]
    assert provider["options"]["path"].endswith(str(FOLDER.relative_to(ROOT)))
    (source,) = yaml.safe_load((folder / "datasources" / "boardlab.yaml").read_text())["datasources"]
    assert (source["type"], source["url"]) == ("prometheus", "http://127.0.0.1:9090")


def test_there_are_queries_to_try() -> None:
    assert sum(1 for name in ALL for _ in dashboards.queries(name)) > 80
