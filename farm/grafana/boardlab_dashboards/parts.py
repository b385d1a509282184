"""What all dashboards are made of: variables, matchers, panels."""

from __future__ import annotations

import string
from collections.abc import Iterable
from typing import Final, Protocol, Self, TypeVar

from grafana_foundation_sdk.builders import bargauge, heatmap, prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog import builder as cog
from grafana_foundation_sdk.cog import variants
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import prometheus as prometheus_models

SOURCE: Final = common.DataSourceRef(type_val="prometheus", uid="${datasource}")
HOST: Final = 'job=~"$job",instance=~"$instance"'
BOARD: Final = f'{HOST},board_type=~"$board_type",board=~"$board"'
NUMBER: Final = f'{BOARD},release=~"$release",medium=~"$medium"'
_LAST: Final = common_builders.ReduceDataOptions().calcs(["lastNotNull"])
_ALL: Final = models.VariableOption(text="All", value="$__all", selected=True)
_LABELS: Final = {
    "job": ("Job", "boardlab_collector_up", ".+"),
    "instance": ("Instance", 'boardlab_collector_up{job=~"$job"}', ".+"),
    "board_type": ("Board type", f"boardlab_attempts_total{{{HOST}}}", ".+"),
    "board": ("Board", f'boardlab_attempts_total{{{HOST},board_type=~"$board_type"}}', ".+"),
    "release": ("Release", f"boardlab_attempts_total{{{BOARD}}}", ".+"),
    "medium": ("Medium", f"boardlab_attempts_total{{{BOARD}}}", ".*"),
}
FOR_HOSTS: Final = ("job", "instance")
FOR_BOARDS: Final = tuple(_LABELS)


class Panel(Protocol):
    """What the builders of all kinds of panels share."""

    def title(self, title: str) -> Self: ...
    def description(self, description: str) -> Self: ...
    def datasource(self, datasource: common.DataSourceRef) -> Self: ...
    def unit(self, unit: str) -> Self: ...
    def height(self, h: int) -> Self: ...
    def span(self, w: int) -> Self: ...
    def with_target(self, target: cog.Builder[variants.Dataquery]) -> Self: ...


AnyPanel = TypeVar("AnyPanel", bound=Panel)


def dashboard(uid: str, title: str, description: str, labels: tuple[str, ...]) -> builders.Dashboard:
    """An empty dashboard with a variable for each label."""
    made = (
        builders.Dashboard(title)
        .uid(f"boardlab-{uid}")
        .description(description)
        .tags(["boardlab"])
        .readonly()
        .refresh("1m")
        .time("now-7d", "now")
        .timezone("browser")
        .with_variable(builders.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .link(
            builders.DashboardLink("boardlab")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags(["boardlab"])
            .keep_time(True)
        )
    )
    for label in labels:
        made.with_variable(_variable(label))
    return made


def filled(made: builders.Dashboard, panels: Iterable[cog.Builder[models.Panel]]) -> builders.Dashboard:
    """The dashboard with these panels."""
    for panel in panels:
        made.with_panel(panel)
    return made


def query_variable(name: str, label: str, query: str, all_value: str) -> builders.QueryVariable:
    """A variable with the values of a query; all of them at first."""
    return (
        builders.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(query)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(all_value)
        .current(_ALL)
    )


def regressions() -> builders.AnnotationQuery:
    """Marks where a number became a regression."""
    is_one = f'boardlab_release_regression{{{NUMBER},kind!="published"}}'
    return (
        builders.AnnotationQuery()
        .name("Regressions")
        .datasource(SOURCE)
        .enable(True)
        .icon_color("red")
        .expr(f"({is_one} == 1) unless ({is_one} offset 5m == 1)")
        .title_format("{{metric}} of {{board}} got worse in {{release}}")
        .text_format("{{medium}} {{mode}} {{rail}}")
        .step("5m")
    )


def lines(title: str, about: str, unit: str, *queries: tuple[str, str]) -> timeseries.Panel:
    """Lines over time; a query is (expression, legend)."""
    return _filled(timeseries.Panel().fill_opacity(5).min(0), title, about, unit, queries).span(12).height(8)


def number(title: str, about: str, unit: str, *queries: tuple[str, str]) -> stat.Panel:
    """One large number, or a few."""
    return _filled(stat.Panel().reduce_options(_LAST), title, about, unit, queries, instant=True).span(4).height(5)


def bars(title: str, about: str, unit: str, *queries: tuple[str, str]) -> bargauge.Panel:
    """A bar for each series, as it is now."""
    made = bargauge.Panel().reduce_options(_LAST).orientation(common.VizOrientation.HORIZONTAL)
    return _filled(made, title, about, unit, queries, instant=True).span(12).height(9)


def rows(title: str, about: str, unit: str, *queries: tuple[str, str]) -> table.Panel:
    """A row for each series, as it is now."""
    return _filled(table.Panel(), title, about, unit, queries, instant=True, as_table=True).span(24).height(9)


def buckets(title: str, about: str, unit: str, *queries: tuple[str, str]) -> heatmap.Panel:
    """A classic histogram over time."""
    return _filled(heatmap.Panel(), title, about, unit, queries, as_heatmap=True).span(24).height(9)


def _filled(
    panel: AnyPanel,
    title: str,
    about: str,
    unit: str,
    queries: tuple[tuple[str, str], ...],
    *,
    instant: bool = False,
    as_table: bool = False,
    as_heatmap: bool = False,
) -> AnyPanel:
    panel.title(title).description(about).datasource(SOURCE).unit(unit)
    for letter, (expression, legend) in zip(string.ascii_uppercase, queries, strict=False):
        query = prometheus.Dataquery().ref_id(letter).datasource(SOURCE).expr(expression).legend_format(legend)
        query = query.instant() if instant else query.range()
        if as_table:
            query.format(prometheus_models.PromQueryFormat.TABLE)
        if as_heatmap:
            query.format(prometheus_models.PromQueryFormat.HEATMAP)
        panel.with_target(query)
    return panel


def _variable(label: str) -> builders.QueryVariable:
    title, series, all_value = _LABELS[label]
    return query_variable(label, title, f"label_values({series}, {label})", all_value)
