"""The lab itself: sources, consoles, outlets, adapters, places, disks."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders

from boardlab_dashboards.parts import FOR_HOSTS, HOST, bars, dashboard, filled, lines, number


def build() -> builders.Dashboard:
    """The dashboard."""
    made = dashboard(
        "health", "boardlab: lab health", "Sources, consoles, outlets, adapters, places and disks.", FOR_HOSTS
    )
    panels = (
        number("Sources", "1: answers.", "short", (f"boardlab_collector_up{{{HOST}}}", "{{collector}}")),
        number(
            "Since the last answer",
            "Of each source.",
            "s",
            (f"time() - boardlab_collector_last_success_timestamp_seconds{{{HOST}}}", "{{collector}}"),
        ),
        number(
            "USB devices",
            "1: plugged in where it shall be.",
            "short",
            (f"boardlab_usb_device_present{{{HOST}}}", "{{device}}"),
        ),
        number("Places in use", "Of labgrid's places.", "short", (f"sum(boardlab_place_acquired{{{HOST}}})", "")),
        number(
            "Reservations", "By state.", "short", (f"sum by (state) (boardlab_reservations{{{HOST}}})", "{{state}}")
        ),
        number(
            "labgrid exporters",
            "1: offers resources.",
            "short",
            (f"boardlab_labgrid_exporter_up{{{HOST}}}", "{{exporter}}"),
        ),
        lines(
            "Console bytes",
            "What came per second.",
            "Bps",
            (f"rate(boardlab_console_received_bytes_total{{{HOST}}}[$__rate_interval])", "{{port}}"),
        ),
        lines(
            "Since the last byte",
            "Of each console.",
            "s",
            (f"boardlab_console_last_byte_age_seconds{{{HOST}}}", "{{port}}"),
        ),
        lines(
            "Lost ports",
            "How often, and readers that were too slow.",
            "short",
            (f"increase(boardlab_console_gaps_total{{{HOST}}}[$__rate_interval])", "{{port}} lost"),
            (f"increase(boardlab_console_dropped_readers_total{{{HOST}}}[$__rate_interval])", "{{port}} slow reader"),
        ),
        lines(
            "Late stamps",
            "Largest evidence since the port was opened.",
            "s",
            (f"boardlab_console_lateness_max_seconds{{{HOST}}}", "{{port}}"),
        ),
        bars(
            "Adapter latency",
            "Latency timers.",
            "s",
            (f"boardlab_console_adapter_latency_seconds{{{HOST}}}", "{{port}}"),
        ),
        lines(
            "Outlets: how long a command takes",
            "The last command of each.",
            "s",
            (f"boardlab_outlet_last_command_duration_seconds{{{HOST}}}", "{{server}} {{pdu}} {{outlet}}"),
        ),
        lines(
            "Outlets: commands and failures",
            "As they came.",
            "short",
            (f"increase(boardlab_outlet_commands_total{{{HOST}}}[$__rate_interval])", "{{server}} {{pdu}} {{outlet}}"),
            (
                f"increase(boardlab_outlet_failures_total{{{HOST}}}[$__rate_interval])",
                "{{server}} {{pdu}} {{outlet}} failed",
            ),
        ),
        lines(
            "USB devices plugged in",
            "A device that comes and goes has a weak supply.",
            "short",
            (f"increase(boardlab_usb_device_enumerations_total{{{HOST}}}[$__rate_interval])", "{{device}}"),
        ),
        bars(
            "Places by user",
            "Of labgrid.",
            "short",
            (f"sum by (user) (boardlab_places_of_user{{{HOST}}})", "{{user}}"),
        ),
        lines("Disks", "Free space.", "bytes", (f"boardlab_disk_free_bytes{{{HOST}}}", "{{what}}")),
        lines(
            "What the sources cost",
            "How long the last answer took.",
            "s",
            (f"boardlab_collector_duration_seconds{{{HOST}}}", "{{collector}}"),
        ),
    )
    return filled(made, panels)
