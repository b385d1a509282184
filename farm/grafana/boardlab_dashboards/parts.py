"""Parts of all dashboards: variables, matchers, links."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog import builder as cog
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as models

from lab.farm.config import DOCUMENTS

SOURCE: Final = common.DataSourceRef(type_val="prometheus", uid="${datasource}")
HOST: Final = 'job=~"$job",instance=~"$instance"'
BOARD: Final = f'{HOST},board_type=~"$board_type",board=~"$board"'
NUMBER: Final = f'{BOARD},release=~"$release",medium=~"$medium"'
DOCS: Final = DOCUMENTS  # `lab farm files` writes another host's into the JSON
_ALL: Final = models.VariableOption(text="All", value="$__all", selected=True)
_KNOWN: Final = '__name__=~"boardlab_attempts_total|boardlab_board_state"'  # also boards without a run
_LABELS: Final = {
    "job": ("Job", "boardlab_collector_up", ".+"),
    "instance": ("Instance", 'boardlab_collector_up{job=~"$job"}', ".+"),
    "board_type": ("Board type", f"{{{_KNOWN},{HOST}}}", ".+"),
    "board": ("Board", f'{{{_KNOWN},{HOST},board_type=~"$board_type"}}', ".+"),
    "release": ("Release", f"boardlab_attempts_total{{{BOARD}}}", ".+"),
    "medium": ("Medium", f"boardlab_attempts_total{{{BOARD}}}", ".*"),
}
FOR_HOSTS: Final = ("job", "instance")
FOR_BOARDS: Final = tuple(_LABELS)
RUNBOOK: Final = ("Runbook of ${__value.text}", f"{DOCS}/runbooks/#${{__value.text}}")
FAILURE: Final = ("Meaning of ${__value.text}", f"{DOCS}/failures/")


def to(uid: str, labels: tuple[str, ...] = FOR_BOARDS, **values: str) -> str:
    """Address of a dashboard with the same variables, but for these.

    Args:
        labels: the variables that the dashboard with the link has. values: may have ${...}.
    """
    kept = [name for name in ("datasource", *labels) if name not in values]
    words = [f"var-{name}={value}" for name, value in values.items()]
    return (
        f"/d/boardlab-{uid}?{'&'.join([*words, *(f'${{{name}:queryparam}}' for name in kept), '${__url_time_range}'])}"
    )


def cell(column: str) -> str:
    """Cell of a column in the clicked row."""
    return f'${{__data.fields["{column}"]}}'


def dashboard(
    uid: str, title: str, description: str, labels: tuple[str, ...], single: Collection[str] = ()
) -> builders.Dashboard:
    """An empty dashboard with a variable for each label.

    Variables in `single` have one value, the others any number.
    """
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
            .include_vars(True)
        )
    )
    for label in labels:
        made.with_variable(_variable(label, single=label in single))
    return made


def filled(made: builders.Dashboard, panels: Iterable[cog.Builder[models.Panel]]) -> builders.Dashboard:
    """The dashboard with these panels."""
    for panel in panels:
        made.with_panel(panel)
    return made


def query_variable(
    name: str, label: str, query: str, all_value: str, *, single: bool = False
) -> builders.QueryVariable:
    """Variable with the values of a query.

    Its default is all values, or with `single` the first one.
    """
    made = (
        builders.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(query)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
    )
    return made if single else made.multi(True).include_all(True).all_value(all_value).current(_ALL)


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


def _variable(label: str, *, single: bool) -> builders.QueryVariable:
    title, series, all_value = _LABELS[label]
    return query_variable(label, title, f"label_values({series}, {label})", all_value, single=single)
