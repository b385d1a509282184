"""The lab itself: adapters, sources, consoles, outlets, places, disks."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import dashboard as builders

from boardlab_dashboards.panels import Column, bars, lines, number, rows, top
from boardlab_dashboards.parts import DOCS, FOR_HOSTS, HOST, cell, dashboard, filled, to
from boardlab_dashboards.thresholds import (
    ANY_IS_BAD,
    BLUE,
    GREEN,
    NONE_IS_GOOD,
    ORANGE,
    PLAIN_TEXT,
    RED,
    texts,
    thresholds,
)

_NONE: Final = texts({"0": ("none", GREEN)})
_BYTES_A_SECOND: Final = "suffix: B/s"  # Grafana's own unit has a thousandth of a byte, too
_ABSENT: Final = ("NO EXPORTER", RED)


_WHY: Final = f"max by (board, state, reason) (boardlab_board_health_info{{{HOST}}})"


def _runbook(alert: str) -> tuple[str, str]:
    return f"Runbook: {alert}", f"{DOCS}/runbooks/#{alert}"


def build() -> builders.Dashboard:
    """The dashboard."""
    about = "Adapters, sources, consoles, outlets, places and disks."
    made = dashboard("health", "boardlab: lab health", about, FOR_HOSTS)
    port = "max by (port)"
    outlet = "max by (server, pdu, outlet)"
    panels = (
        number(
            "USB devices missing",
            "Devices of farm.yaml that are not plugged in.",
            "none",
            (f"sum(1 - boardlab_usb_device_present{{{HOST}}})", ""),
            look=NONE_IS_GOOD,
            mappings=_NONE,
            nothing="none named",
            to=_runbook("BoardlabAdapterGone"),
        ),
        number(
            "Sources down",
            "Collectors of the exporter without an answer.",
            "none",
            (f"sum(1 - boardlab_collector_up{{{HOST}}})", ""),
            look=NONE_IS_GOOD,
            mappings=texts({"0": ("none", GREEN)}, absent=_ABSENT),
            to=_runbook("BoardlabCollectorDown"),
        ),
        number(
            "Consoles lost",
            "Ports that the console server had and cannot open.",
            "none",
            (f"sum(1 - boardlab_console_open{{{HOST}}})", ""),
            look=NONE_IS_GOOD,
            mappings=_NONE,
            nothing="no console",
            to=_runbook("BoardlabConsoleLost"),
        ),
        number(
            "Not recorded",
            "Consoles whose bytes are not written to the disk.",
            "none",
            (f"sum(boardlab_console_recording_broken{{{HOST}}})", ""),
            look=NONE_IS_GOOD,
            mappings=_NONE,
            nothing="no console",
            to=_runbook("BoardlabConsoleNotRecorded"),
        ),
        number(
            "labgrid exporters away",
            "Exporters that a place names and that offer nothing.",
            "none",
            (f"sum(1 - boardlab_labgrid_exporter_up{{{HOST}}})", ""),
            look=NONE_IS_GOOD,
            mappings=_NONE,
            nothing="no coordinator",
        ),
        number(
            "Places in use",
            "Of labgrid's places; boardlab's own reservations stand below.",
            "none",
            (f"sum(boardlab_place_acquired{{{HOST}}})", ""),
            nothing="no coordinator",
        ),
        number(
            "Boards kept out",
            "In quarantine, or with a check that failed and nothing good since: no run gets them.",
            "none",
            (f'sum(boardlab_board_health{{{HOST},state="bad"}})', ""),
            look=NONE_IS_GOOD,
            mappings=_NONE,
            nothing="none known",
            to=_runbook("BoardlabBoardBad"),
        ),
        rows(
            "Boards that are not healthy",
            "Why, as `lab health` has it; those that no run gets stand first.",
            (
                Column("board", "Board", 170, link=(f"Board {cell('Board')}", to("board", board=cell("Board")))),
                Column(
                    "state",
                    "State",
                    110,
                    mappings=texts(
                        {"bad": ("BAD", RED), "suspect": ("suspect", ORANGE), "maintenance": ("maintenance", BLUE)}
                    ),
                    link=_runbook("BoardlabBoardBad"),
                ),
                Column("reason", "Reason", 0),
                Column("Value #B", "In quarantine for", 130, "s", decimals=0),
                Column("Value #C", "Checked before", 120, "s", decimals=0),
            ),
            _WHY,
            f"(time() - max by (board) (boardlab_board_quarantine_timestamp_seconds{{{HOST}}})) * on (board) group_right () {_WHY}",
            f"(time() - max by (board) (boardlab_board_checked_timestamp_seconds{{{HOST}}})) * on (board) group_right () {_WHY}",
            by=[("State", False)],
            nothing="all are healthy",
            height=8,
        ),
        rows(
            "USB devices",
            "Missing devices come first.",
            (
                Column("device", "Device", 0),
                Column("kind", "Kind", 100),
                Column("id_path", "Plugged in at", 150),
                Column(
                    "Value #A",
                    "State",
                    110,
                    mappings=texts({"0": ("MISSING", RED), "1": ("there", GREEN)}),
                    link=_runbook("BoardlabAdapterGone"),
                ),
                Column("Value #B", "Came back, 1 day", 140, "none", thresholds(PLAIN_TEXT, (1, ORANGE)), decimals=0),
            ),
            f"max by (device, kind, id_path) (boardlab_usb_device_present{{{HOST}}})",
            f"sum by (device, kind, id_path) (increase(boardlab_usb_device_enumerations_total{{{HOST}}}[1d]))",
            by=[("State", False)],
            nothing="farm.yaml names no device",
            span=14,
            height=10,
        ),
        rows(
            "Sources",
            "Sources of the exporter, and the times of their last answers; those down come first.",
            (
                Column("collector", "Source", 0),
                Column(
                    "Value #A",
                    "State",
                    90,
                    mappings=texts({"0": ("DOWN", RED), "1": ("answers", GREEN)}),
                    link=_runbook("BoardlabCollectorDown"),
                ),
                Column("Value #B", "Last answer", 120, "s", thresholds(PLAIN_TEXT, (300, RED)), decimals=0),
                Column("Value #C", "Took", 100, "s", thresholds(PLAIN_TEXT, (5, ORANGE))),
            ),
            f"min by (collector) (boardlab_collector_up{{{HOST}}})",
            f"max by (collector) (time() - boardlab_collector_last_success_timestamp_seconds{{{HOST}}})",
            f"max by (collector) (boardlab_collector_duration_seconds{{{HOST}}})",
            by=[("State", False)],
            nothing="NO EXPORTER",
            span=10,
            height=10,
        ),
        rows(
            "Consoles",
            "Lost ports come first. Latency timer: longest delay of a byte in the adapter; more than 1 ms widens every ±.",
            (
                Column("port", "Port", 0),
                Column(
                    "Value #A",
                    "State",
                    80,
                    mappings=texts({"0": ("LOST", RED), "1": ("open", GREEN)}),
                    link=_runbook("BoardlabConsoleLost"),
                ),
                Column("Value #B", "Recording", 100, mappings=texts({"1": ("BROKEN", RED), "0": ("works", GREEN)})),
                Column("Value #C", "Last byte", 110, "s"),
                Column("Value #D", "Bytes/s", 110, _BYTES_A_SECOND, decimals=1),
                Column("Value #E", "Lost, 1 day", 100, "none", ANY_IS_BAD, decimals=0),
                Column("Value #F", "Slow readers, 1 day", 150, "none", ANY_IS_BAD, decimals=0),
                Column("Value #G", "Latency timer", 110, "s", thresholds(PLAIN_TEXT, (0.0011, ORANGE))),
                Column("Value #H", "Latest stamp", 110, "s", thresholds(PLAIN_TEXT, (0.01, ORANGE))),
            ),
            f"min by (port) (boardlab_console_open{{{HOST}}})",
            f"{port} (boardlab_console_recording_broken{{{HOST}}})",
            f"{port} (boardlab_console_last_byte_age_seconds{{{HOST}}})",
            f"{port} (rate(boardlab_console_received_bytes_total{{{HOST}}}[1d]))",
            f"{port} (increase(boardlab_console_gaps_total{{{HOST}}}[1d]))",
            f"{port} (increase(boardlab_console_dropped_readers_total{{{HOST}}}[1d]))",
            f"{port} (boardlab_console_adapter_latency_seconds{{{HOST}}})",
            f"{port} (boardlab_console_lateness_max_seconds{{{HOST}}})",
            by=[("State", False), ("Recording", True)],
            nothing="no console server runs",
            height=10,
        ),
        lines(
            "Console bytes",
            "Received bytes per second of the five busiest ports.",
            _BYTES_A_SECOND,
            (top(f"{port} (rate(boardlab_console_received_bytes_total{{{HOST}}}[$__rate_interval]))"), "{{port}}"),
        ),
        rows(
            "Outlets",
            "Failed outlets come first.",
            (
                Column("server", "Server", 150),
                Column("pdu", "PDU", 0),
                Column("outlet", "Outlet", 70),
                Column("Value #A", "Commands, 1 day", 130, "none", decimals=0),
                Column(
                    "Value #B",
                    "Failed, 7 days",
                    120,
                    "none",
                    ANY_IS_BAD,
                    decimals=0,
                    link=_runbook("BoardlabOutletFailing"),
                ),
                Column("Value #C", "Last took", 90, "s", thresholds(PLAIN_TEXT, (2, ORANGE), (10, RED))),
            ),
            f"{outlet} (increase(boardlab_outlet_commands_total{{{HOST}}}[1d]))",
            f"{outlet} (increase(boardlab_outlet_failures_total{{{HOST}}}[7d]))",
            f"{outlet} (boardlab_outlet_last_command_duration_seconds{{{HOST}}})",
            by=[("Failed, 7 days", True)],
            nothing="no outlet was switched yet",
            span=12,
            height=9,
        ),
        bars(
            "Disks",
            "Used space of each; the alert comes at nine tenths.",
            "percentunit",
            (f"1 - boardlab_disk_free_bytes{{{HOST}}} / boardlab_disk_size_bytes{{{HOST}}}", "{{what}}"),
            look=thresholds(GREEN, (0.75, ORANGE), (0.9, RED)),
            nothing="NO EXPORTER",
        ).max(1),
        lines("Free space", "Of each disk.", "bytes", (f"boardlab_disk_free_bytes{{{HOST}}}", "{{what}}")),
        rows(
            "Who has what",
            "Reservations, maintenance and quarantine of boards (boardlab), and acquired places (labgrid).",
            (
                Column("who", "Who", 0),
                Column("kind", "How", 170),
                Column("what", "Board or place", 230),
            ),
            " or ".join(
                f"max by (who, kind, what) ({_renamed(series, who=who, what=what, kind=kind)})"
                for series, who, what, kind in (
                    (f"boardlab_board_hold{{{HOST}}}", "person", "board", "kind"),
                    (
                        f'label_replace(boardlab_place_acquired_by{{{HOST}}}, "kind", "labgrid", "place", ".*")',
                        "user",
                        "place",
                        "kind",
                    ),
                )
            ),
            by=[("Who", False)],
            nothing="nobody has a board or a place",
            span=12,
        ),
        rows(
            "Reservations",
            "Of boards by kind (boardlab), and of places by state (labgrid).",
            (Column("state", "State", 0), Column("Value", "Reservations", 120, "none")),
            f'sum by (state) (label_replace(boardlab_board_hold{{{HOST}}}, "state", "$1 (boardlab)", "kind", "(.+)")) or '
            f'sum by (state) (label_replace(boardlab_reservations{{{HOST}}}, "state", "$1 (labgrid)", "state", "(.+)"))',
            nothing="no reservation",
            span=12,
        ),
    )
    return filled(made, panels)


def _renamed(series: str, **labels: str) -> str:
    """A query with labels under other names."""
    for name, label in labels.items():
        series = f'label_replace({series}, "{name}", "$1", "{label}", "(.+)")' if name != label else series
    return series
