"""The catalogue of all failure classes, so that each counts from 0.

docs/failures.md explains them. `tests/unit/test_failure_catalogue.py` holds that none is missing.
"""

from __future__ import annotations

import itertools
from typing import Final

OTHER: Final = "other"  # a class that is not in the catalogue, e.g. of a board type or a driver of somebody's own

# Failure classes seen on a console; `hang_` is followed by the stage.
BOOT_FAILURES: Final = (
    *("silent", "reset", "garbled", "log_flood", "too_slow", "wrong_medium", "mixed_boot", "wrong_board"),
    *("hang_spl", "hang_uboot", "hang_kernel", "hang_before_login"),
    *("moment_missing", "moment_order", "impossible_times", "stamps_uncertain", "host_suspended"),
    *("stopped_at_uboot", "autoboot_missed", "prompt_broken", "prompt_unanswered", "login_failed", "software_changed"),
    *("not_rebooted", "second_kernel", "prompt_not_real", "prompt_again"),
    *("rom_no_medium", "no_boot_device", "bad_image", "authentication", "uboot_abort", "no_root", "io_error"),
    *("kernel_panic", "kernel_oops", "kernel_lockup", "emergency_mode"),
)
_SLEEP: Final = (
    *("suspend_refused", "did_not_suspend", "early_wake", "hung_resume", "wrong_sleep_mode", "resume_lines_missing"),
    "resume_contradicted",
    *("no_low_power", "setting_refused", "sleep_blocked", "rails_up", "rt_kernel"),
    *("characters_lost", "console_not_restored"),
)
_BENCHMARKS: Final = (
    *("command_failed", "command_timeout", "tester_command_failed", "output_failed", "restore_failed"),
    *("link_lossy", "search_unstable", "unreadable_output", "wrong_engine"),
)
_CONSOLE: Final = (
    *("adapter_lost", "adapter_missing", "adapter_renumbered", "adapter_fed_by_board", "recording_broken", "tcp_port"),
    *("console_busy", "console_full", "console_overrun", "console_protocol", "console_shared"),
    *("clock_unrelated", "console_link"),
    *("console_server_fault", "console_server_gone", "console_server_silent", "no_console_server"),
    *("port", "port_in_use", "port_lost", "port_missing", "port_permission", "port_stuck", "port_unknown"),
)
_POWER: Final = (
    *("power_off_ineffective", "power_lost", "pdu_refused", "pdu_timeout", "pdu_unreachable", "pdudaemon"),
    *("strap_mismatch", "power_sensor", "power_sampler", "automation_interface", "phase"),
    *("power_on_ineffective", "console_echo", "rail_unread", "rail_out_of_range"),  # of a board's check
)
_LAB: Final = (
    "artifacts",
    "results",
    "disk",
    "lease_lost",
    "place_busy",
    "place_lost",
    "exporter_gone",
    "coordinator_unreachable",
    "virtual_bench",
    "virtual_board",
)
_PROVISION: Final = (  # the classes of lab.provision.errors
    *("media_write_failed", "media_verify_failed", "media_write_protected", "media_bad_block", "media_missing"),
    *("extcsd_not_set", "tftp_timeout", "write_stalled", "multiplexer_failed", "recovery_failed", "release_mismatch"),
    *("image_unreachable", "image_damaged", "image_too_large", "wrong_image_for_board", "target_refused"),
    *("usb_refused", "irreversible"),
)
_UNNAMED: Final = ("board", "lab", "test", "configuration", "error")  # by whose fault, see lab.errors
# labgrid's drivers, see lab.drivers.guarded_calls.
DRIVERS: Final = ("strap", "wake_pin", "power", "console", "rails", "tester", "shell", "uboot", "multiplexer")
ENDS: Final = ("timeout", "unreachable", "failed", "missing", "refused", "broken")

CATALOGUE: Final = frozenset(
    (
        *(*BOOT_FAILURES, *_SLEEP, *_BENCHMARKS, *_CONSOLE, *_POWER, *_LAB, *_PROVISION, *_UNNAMED),
        *(f"{driver}_{end}" for driver, end in itertools.product(DRIVERS, ENDS)),
        OTHER,
    )
)
