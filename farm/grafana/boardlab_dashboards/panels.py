"""Kinds of panels, each with its unit, colours and empty text."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from typing import Any, Final, Protocol, Self, TypeVar

from attrs import field, frozen
from grafana_foundation_sdk.builders import bargauge, heatmap, prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog import builder as cog
from grafana_foundation_sdk.cog import variants
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import prometheus as prometheus_models

from boardlab_dashboards.parts import SOURCE
from boardlab_dashboards.thresholds import PLAIN, Mappings

MOST_LINES: Final = 5  # on one axis: with more, the names below it are not all seen
_LAST: Final = common_builders.ReduceDataOptions().calcs(["lastNotNull"])
_SELECTOR: Final = re.compile(r"\}(\[[^\]]+\])?")  # its end
_LETTERS: Final = string.ascii_uppercase

Query = tuple[str, str]  # expression, legend


@frozen
class Column:
    """A column of a table.

    Attributes:
        source: the label it shows, or "Value #A" for the first query's value ("Value" where there is one query).
        width: in pixels; 0: what is left. look: colours of its text. link: (title, url) of a click.
    """

    source: str
    name: str
    width: int = 0
    unit: str = ""
    look: cog.Builder[models.ThresholdsConfig] | None = None
    mappings: Mappings = field(factory=list)
    link: tuple[str, str] | None = None
    decimals: int | None = None


class Panel(Protocol):
    """Common methods of all panel builders."""

    def title(self, title: str) -> Self: ...
    def description(self, description: str) -> Self: ...
    def datasource(self, datasource: common.DataSourceRef) -> Self: ...
    def unit(self, unit: str) -> Self: ...
    def height(self, h: int) -> Self: ...
    def span(self, w: int) -> Self: ...
    def no_value(self, no_value: str) -> Self: ...
    def thresholds(self, thresholds: cog.Builder[models.ThresholdsConfig]) -> Self: ...
    def with_target(self, target: cog.Builder[variants.Dataquery]) -> Self: ...
    def repeat(self, repeat: str) -> Self: ...
    def repeat_direction(self, repeat_direction: Any) -> Self: ...
    def max_per_row(self, max_per_row: float) -> Self: ...


AnyPanel = TypeVar("AnyPanel", bound=Panel)


def link(title: str, url: str) -> builders.DashboardLink:
    """Link of a value."""
    return builders.DashboardLink(title).url(url)


def top(expression: str, count: int = MOST_LINES) -> str:
    """The highest series at the end, shown over the whole time.

    `topk` alone would choose others at each time.
    """
    at_the_end = _SELECTOR.sub(r"\g<0> @ end()", expression)
    return f"{expression} and topk({count}, {at_the_end})"


def lines(
    title: str,
    about: str,
    unit: str,
    *queries: Query,
    each: str = "",
    to: tuple[str, str] | None = None,
    nothing: str = "nothing yet",
) -> timeseries.Panel:
    """Lines over time.

    Args:
        each: a variable; the panel is there once for each of its values. to: (title, url) of a click on a point.
    """
    legend = common_builders.VizLegendOptions().show_legend(True).display_mode(common.LegendDisplayMode.LIST)
    made = timeseries.Panel().fill_opacity(0).line_width(2).legend(legend.placement(common.LegendPlacement.BOTTOM))
    made.min(0)  # an axis that begins below the lowest value makes noise a step
    made.span_nulls(False).tooltip(common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
    made.show_points(common.VisibilityMode.AUTO)
    if to:
        made.data_links([link(*to)])
    filled = _filled(made, title, about, unit, queries, nothing=nothing).thresholds(PLAIN)
    return _repeated(filled.span(12).height(11 if each else 9), each)


def number(
    title: str,
    about: str,
    unit: str,
    *queries: Query,
    look: cog.Builder[models.ThresholdsConfig] = PLAIN,
    mappings: Mappings | None = None,
    nothing: str = "none",
    span: int = 4,
    to: tuple[str, str] | None = None,
) -> stat.Panel:
    """One large number, or a few with names; bad ones are coloured."""
    made = stat.Panel().reduce_options(_LAST).graph_mode(common.BigValueGraphMode.NONE).mappings(mappings or [])
    made.color_mode(common.BigValueColorMode.VALUE).thresholds(look)
    if to:
        made.data_links([link(*to)])
    return _filled(made, title, about, unit, queries, instant=True, nothing=nothing).span(span).height(3)


def bars(
    title: str,
    about: str,
    unit: str,
    *queries: Query,
    look: cog.Builder[models.ThresholdsConfig] = PLAIN,
    each: str = "",
    nothing: str = "none",
    height: int = 9,
) -> bargauge.Panel:
    """A bar per series, with its present value and name."""
    made = bargauge.Panel().reduce_options(_LAST).orientation(common.VizOrientation.HORIZONTAL).min(0)
    made.display_mode(common.BarGaugeDisplayMode.BASIC).name_placement(common.BarGaugeNamePlacement.TOP)
    made.sizing(common.BarGaugeSizing.MANUAL).min_viz_height(38).max_viz_height(38)
    made.thresholds(look).color_scheme(builders.FieldColor().mode(models.FieldColorModeId.THRESHOLDS))
    made.text(common_builders.VizTextDisplayOptions().title_size(13).value_size(14))
    return _repeated(
        _filled(made, title, about, unit, queries, instant=True, nothing=nothing).span(12).height(height), each
    )


def rows(
    title: str,
    about: str,
    columns: Sequence[Column],
    *queries: str,
    by: Sequence[tuple[str, bool]] = (),
    nothing: str = "none",
    span: int = 24,
    height: int = 8,
) -> table.Panel:
    """A row per series, with these columns in their order.

    Args:
        by: (column, whether the largest comes first).
    """
    made = table.Panel().thresholds(PLAIN).min_width(90).cell_options(common.TableAutoCellOptions(wrap_text=True))
    if len(queries) > 1:
        made.with_transformation(models.DataTransformerConfig(id_val="merge", options={}))
    sources = [one.source for one in columns]
    sources = [one.source for one in columns]
    values = [f"Value #{letter}" for letter in _LETTERS[: len(queries)]] if len(queries) > 1 else ["Value"]
    organized = {
        "excludeByName": dict.fromkeys(["Time", *(value for value in values if value not in sources)], True),
        "indexByName": {source: index for index, source in enumerate(sources)},
        "renameByName": {one.source: one.name for one in columns},
    }
    made.with_transformation(models.DataTransformerConfig(id_val="organize", options=organized))
    made.override_by_regexp(".*", [models.DynamicConfigValue("noValue", "")])  # of a cell; `nothing` is the panel's
    for one in columns:
        made.override_by_name(one.name, _properties(one))
    made.sort_by([common_builders.TableSortByFieldState().display_name(name).desc(desc) for name, desc in by])
    filled = _filled(
        made, title, about, "string", [(one, "") for one in queries], instant=True, table=True, nothing=nothing
    )
    return filled.span(span).height(height)


def buckets(title: str, about: str, unit: str, *queries: Query) -> heatmap.Panel:
    """A classic histogram over time."""
    return _filled(heatmap.Panel(), title, about, unit, queries, as_heatmap=True).span(24).height(9)


def _properties(column: Column) -> list[models.DynamicConfigValue]:
    found: dict[str, object] = {}
    if column.width:
        found["custom.width"] = column.width
    if column.unit or column.source.startswith("Value"):
        found["unit"] = column.unit or "none"
    if column.decimals is not None:
        found["decimals"] = column.decimals
    if column.mappings:
        found["mappings"] = column.mappings
    if column.look is not None:
        found["thresholds"] = column.look.build()
    if column.look is not None or column.mappings:
        found["custom.cellOptions"] = common.TableColorTextCellOptions(wrap_text=True)
    if column.link is not None:
        found["links"] = [link(*column.link).build()]
    return [models.DynamicConfigValue(id_val=key, value=value) for key, value in found.items()]


def _repeated(panel: AnyPanel, each: str) -> AnyPanel:
    if each:
        panel.repeat(each).repeat_direction("h").max_per_row(3).span(24)
    return panel


def _filled(
    panel: AnyPanel,
    title: str,
    about: str,
    unit: str,
    queries: Sequence[Query],
    *,
    instant: bool = False,
    table: bool = False,
    as_heatmap: bool = False,
    nothing: str = "none",
) -> AnyPanel:
    panel.title(title).description(about).datasource(SOURCE).unit(unit).no_value(nothing)
    for letter, (expression, legend) in zip(_LETTERS, queries, strict=False):
        query = prometheus.Dataquery().ref_id(letter).datasource(SOURCE).expr(expression).legend_format(legend)
        query = query.instant() if instant else query.range()
        if table:
            query.format(prometheus_models.PromQueryFormat.TABLE)
        if as_heatmap:
            query.format(prometheus_models.PromQueryFormat.HEATMAP)
        panel.with_target(query)
    return panel
