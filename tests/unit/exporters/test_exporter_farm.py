"""The farm's sources, each by itself, and all of them on one page."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import attrs
import metric_table
import pytest
import yaml
from boardlab_dashboards.parts import DOCS
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric as Family
from support import farm_scrape
from support.facts import missing_facts
from support.farm_scrape import PORT, SERVER, STATE, Plugs

from exporters.farm import host
from exporters.farm.host import ConsoleCollector, Disks, Outlets, PduDaemonProbe, Usb, UsbDevice
from exporters.farm.places import PlaceCollector
from exporters.measurements import BASE_UNITS, LONGEST_VALUE, clean, label_name, name_of, quantity_of
from lab.errors import LabTransientError
from lab.farm import notify
from lab.host import status_files
from lab.host.status_files import OutletStatus
from lab.metrics import Metric
from lab.metrics.catalogue import ALL, published
from lab.metrics.rates import RATES

ROOT = Path(__file__).resolve().parents[3]
RULES = ROOT / "farm" / "prometheus" / "rules"


def values(families: list[Family]) -> dict[tuple[str, ...], float]:
    """(name, values of the labels) -> value."""
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def test_the_state_of_a_console_is_told() -> None:
    found = values(host.families(SERVER))
    assert found["boardlab_console_open", "ttyUSB0"] == 1
    assert found["boardlab_console_received_bytes_total", "ttyUSB0"] == 5000
    assert found["boardlab_console_last_byte_age_seconds", "ttyUSB0"] == 2.5
    assert found["boardlab_console_line_errors_total", "ttyUSB0", "overrun"] == 2
    assert found["boardlab_console_lateness_max_seconds", "ttyUSB0"] == 0.0003


def test_a_lost_port_without_a_byte_and_without_counters_is_told_too() -> None:
    lost = attrs.evolve(PORT, state="No such device", last_byte_age_s=None, line_errors=None, writer=None)
    found = values(host.families(attrs.evolve(SERVER, ports=[lost])))
    assert found["boardlab_console_open", "ttyUSB0"] == 0
    assert not [key for key in found if "last_byte" in key[0] or "line_errors" in key[0]]


def test_a_console_server_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LabTransientError):
        ConsoleCollector(tmp_path).read()


def test_an_outlet_is_told_by_who_switched_it_and_a_broken_file_is_nobodys(tmp_path: Path) -> None:
    folder = tmp_path / status_files.OUTLETS
    status_files.write(folder, "rack1/3", OutletStatus("lab1:16421", "rack1", "3", "on", 1000.0, 0.2, 40, 2))
    status_files.write(folder, "rack1/3", OutletStatus("lab1:16421", "rack1", "3", "off", 1002.0, 0.5, 41, 3))
    (folder / "broken.json").write_text("{")
    found = values(Outlets(tmp_path).read())
    assert found["boardlab_outlet_last_command_on", "lab1:16421", "rack1", "3"] == 0
    assert found["boardlab_outlet_commands_total", "lab1:16421", "rack1", "3"] == 41
    assert found["boardlab_outlet_failures_total", "lab1:16421", "rack1", "3"] == 3
    assert len(found) == 5


def test_a_pdudaemon_that_does_not_answer_is_an_error() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(LabTransientError, match="does not answer"):
            PduDaemonProbe(f"127.0.0.1:{closed.getsockname()[1]}").read()


def test_a_disk_that_is_not_mounted_is_an_error(tmp_path: Path) -> None:
    assert values(Disks({"results": tmp_path}).read())["boardlab_disk_size_bytes", "results"] > 0
    with pytest.raises(LabTransientError, match="is its disk mounted"):
        Disks({"results": tmp_path / "nowhere"}).read()


def test_folders_of_one_disk_are_one_disk(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    folders = {"results": tmp_path, "recordings": tmp_path / "inner", "processes": Path("/proc")}
    found = values(Disks(folders).read())
    assert {key[1] for key in found if key[0] == "boardlab_disk_free_bytes"} == {"recordings, results", "processes"}


def test_places_are_told_with_who_has_them() -> None:
    found = values(PlaceCollector(lambda: STATE).read())
    assert found["boardlab_place_acquired", "am62x-sk-1"] == 1
    assert found["boardlab_place_acquired_by", "am62x-sk-1", "ci1/alice"] == 1
    assert found["boardlab_place_acquired", "am62x-sk-2"] == 0
    assert found["boardlab_labgrid_exporter_up", "gone"] == 0
    assert found["boardlab_reservations", "waiting"] == 1


def test_usb_devices_are_counted_by_where_they_are_plugged_in() -> None:
    plugs = Plugs("usb-0:2")
    usb = Usb([UsbDevice("console", "adapter", "usb-0:2"), UsbDevice("card", "sdmux", "usb-0:3")], plugs)
    assert values(usb.read())["boardlab_usb_device_present", "card", "sdmux", "usb-0:3"] == 0
    plugs.plugged.add("usb-0:3")
    plugs.new = ["usb-0:3", "usb-0:3", "usb-9:9"]
    usb.read()
    plugs.new = ["usb-0:3"]
    found = values(usb.read())
    assert found["boardlab_usb_device_present", "card", "sdmux", "usb-0:3"] == 1
    assert found["boardlab_usb_device_enumerations_total", "card", "sdmux", "usb-0:3"] == 3
    assert found["boardlab_usb_device_enumerations_total", "console", "adapter", "usb-0:2"] == 0


@pytest.mark.parametrize("metric", [*ALL, *published()], ids=lambda metric: metric.name)
def test_every_metric_of_the_catalogue_has_a_base_unit(metric: Metric) -> None:
    assert metric.unit in BASE_UNITS
    assert re.fullmatch(r"boardlab_[a-z0-9_]+", name_of(metric).value)


def test_no_two_metrics_have_the_same_series() -> None:
    named = [name_of(metric) for metric in (*ALL, *published()) if not metric.name.startswith("power.")]
    families = [(text, name.labels) for name in named for text in (name.value, name.samples)]
    assert len(set(families)) == len(families)


@pytest.mark.parametrize(
    ("metric", "family", "labels"),
    [
        ("lpm.deep_sleep.resume_kernel", "resume_latency", {"mode": "deep_sleep", "definition": "kernel"}),
        (
            "lpm.mcu_only.resume_wake_to_first_byte",
            "resume_latency",
            {"mode": "mcu_only", "definition": "wake_to_first_byte"},
        ),
        ("power.resume_latency", "resume_latency", {"definition": "kernel"}),
        ("lpm.partial_io.power_rail", "rail_power", {"mode": "partial_io"}),
        ("power.rail", "rail_power", {}),
        ("lpm.standby.power_total", "total_power", {"mode": "standby"}),
        ("camera.energy", "camera_energy", {}),
        ("lpm.camera.energy", "lpm_camera_energy", {}),
        ("lpm.deep_sleep.energy", "phase_energy", {"mode": "deep_sleep"}),
        ("lpm.partial_io.rail_voltage", "rail_voltage", {"mode": "partial_io"}),
        ("lmbench.bw_mem", "lmbench_bw_mem", {}),
    ],
)
def test_modes_and_definitions_are_labels(metric: str, family: str, labels: dict[str, str]) -> None:
    quantity, named = quantity_of(metric)
    assert (quantity, dict(named)) == (family, labels)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("size", "size"),
        ("Board", "Board"),
        ("board", "param_board"),
        ("version", "param_version"),
        ("run", "param_run"),
        ("le", "param_le"),
        ("8 KiB", "param_8_KiB_ee0b5a57"),
        ("größe", "param_gr_e_d353a267"),
        ("", "param_e3b0c442"),
    ],
)
def test_a_parameter_becomes_a_label(given: str, name: str) -> None:
    assert label_name(given) == name


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("a\tb\x00", "a?b?…"),
        ("é ü", "é ü"),
        ("\udcff", "?…"),
        ("x" * 100, "x" * 100),
        ("x" * 101, "x" * 91 + "…"),
    ],
)
def test_a_value_of_a_label_is_cleaned(given: str, value: str) -> None:
    assert re.sub("…[0-9a-f]{8}$", "…", clean(given)) == value


TEXTS = st.lists(st.sampled_from([*"aA_.é\t\udcff", "param_", "x" * 99]), max_size=4).map("".join)


@given(TEXTS, TEXTS)
def test_two_parameters_never_share_a_label(one: str, other: str) -> None:
    assert (clean(one) == clean(other)) == (one == other) == (label_name(one) == label_name(other))
    for text in (clean(one), label_name(one)):
        assert len(text) <= LONGEST_VALUE + len("param_")
        assert text.isprintable()
    assert re.fullmatch(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*", label_name(one))


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Every name of a series that the exporter has."""
    return farm_scrape.everything(tmp_path_factory.mktemp("everything")).names


def expressions(text: str) -> set[str]:
    """Names of our metrics in a text."""
    return set(re.findall(r"(?<![\w:])boardlab_[a-z0-9_]+", text))


def test_every_metric_of_a_rule_is_one_that_the_exporter_has(names: set[str]) -> None:
    rules = [
        rule
        for path in RULES.iterdir()
        for group in yaml.safe_load(path.read_text())["groups"]
        for rule in group["rules"]
    ]
    assert len(rules) > 20
    recorded = {rule["record"] for rule in rules if "record" in rule}
    for rule in rules:
        assert expressions(rule["expr"]) <= names, rule
        assert set(re.findall(r"[a-z_]+:[\w:]+", rule["expr"])) <= recorded, rule


def test_the_page_on_metrics_lists_every_family_but_the_benchmarks(names: set[str]) -> None:
    page = metric_table.on_page_markdown((ROOT / "docs" / "farm-metrics.md").read_text(encoding="utf-8"))
    ours = {name_of(metric) for metric in (*ALL, *RATES.values(), *published())}
    benchmarks = {text for name in ours for text in (name.value, name.uncertainty, name.samples)}
    families = {re.sub(r"_(bucket|count|sum)$", "", name) for name in names - benchmarks}
    assert {name for name in families if f"`{name}`" not in page} == set()


def test_every_alert_has_a_page_that_says_what_to_do() -> None:
    page = (ROOT / "docs" / "runbooks.md").read_text(encoding="utf-8")
    rules = yaml.safe_load((RULES / "alerts.yml").read_text())["groups"][0]["rules"]
    alerts = [rule for rule in rules if "alert" in rule]
    for rule in alerts:
        name = rule["alert"]
        assert rule["annotations"]["runbook"] == f"docs/runbooks.md#{name.lower()}"
        assert rule["annotations"]["runbook_url"] == f"{DOCS}/runbooks/#{name.lower()}"
        assert f'<a id="{name}"></a>\n\n## {name}\n' in page, "dashboards link to it by its name"
        section = page.partition(f"## {name}\n")[2].partition("\n## ")[0]
        assert len(section.split()) > 25, name
    of_lab_farm = {notify.FAILED, notify.TEST, "BoardlabBuildFailed"}  # the last one is farm/buildbot's
    assert set(re.findall(r"^## (\w+)$", page, re.MULTILINE)) == {rule["alert"] for rule in alerts} | of_lab_farm


def test_a_boards_health_is_one_of_its_states(tmp_path: Path) -> None:
    found = farm_scrape.everything(tmp_path)
    states = ("healthy", "suspect", "bad", "maintenance")
    assert [found.one("boardlab_board_health", board="qemu-1", state=state) for state in states] == [0, 0, 1, 0]
    assert found.one("boardlab_board_checked_timestamp_seconds", board="qemu-1") > 0
    assert found.all("boardlab_reference_board") == {frozenset({("board", "qemu-1")}): 1.0}
    ((why, one),) = found.all("boardlab_board_health_info").items()
    assert (dict(why)["board"], dict(why)["state"], one) == ("qemu-1", "bad", 1)
    assert not missing_facts(dict(why)["reason"], "3 faults", "in a row")
    assert found.one("boardlab_board_quarantine_timestamp_seconds", board="qemu-1") > 0
    assert found.one("boardlab_board_hold", board="qemu-1", kind="quarantine") == 1
