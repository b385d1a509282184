"""`lab farm add`: a CSV of boards becomes environments and entries of farm.yaml, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from support.facts import missing_facts

from lab.cli import main
from lab.env import envfile
from lab.errors import ConfigurationError
from lab.farm import config, inventory
from lab.health.reservations import QUALIFYING, ReservationBook
from lab.results import open_store
from lab.results.audit import Audit

HEADER = "name,type,host,serial,pdu,outlet,straps,sdmux,sensor,medium,tester"
ROW = {
    "name": "sk-1",
    "type": "am62xx_sk",
    "host": "",
    "serial": "pci-0000:00:14.0-usb-0:1.1",
    "pdu": "rack1",
    "outlet": "1",
    "straps": "http://10.0.0.9/sk-1/{bit}",
}


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAB_DB", str(tmp_path / "results.db"))
    assert main(["init", ".", "--board-type", "am62xx_sk"]) == 0
    (tmp_path / "pdudaemon.conf").write_text('{"pdus": {"rack1": {"driver": "apc7952"}}}')
    text = (tmp_path / "farm.yaml").read_text().replace("/etc/pdudaemon/pdudaemon.conf", "pdudaemon.conf")
    (tmp_path / "farm.yaml").write_text(text + "# the last line\n")
    return tmp_path


def csv(lab: Path, *rows: dict[str, str], columns: str = "") -> Path:
    names = columns or ",".join(dict.fromkeys([*HEADER.split(","), *(name for row in rows for name in row)]))
    path = lab / "boards.csv"
    path.write_text("\n".join([names, *(",".join(row.get(name, "") for name in names.split(",")) for row in rows)]))
    return path


def row(number: int, **more: str) -> dict[str, str]:
    own = {"name": f"sk-{number}", "serial": f"pci-0000:00:14.0-usb-0:1.{number}", "outlet": str(number)}
    return {**ROW, "straps": f"http://10.0.0.9/sk-{number}/{{bit}}", **own, **more}


def add(lab: Path, *rows: dict[str, str]) -> int:
    return main(["farm", "add", str(csv(lab, *rows))])


def resources(path: Path) -> dict[str, dict[str, Any]]:
    found = yaml.safe_load(path.read_text())["targets"]["main"]["resources"]
    return {f"{cls}:{args.get('name', '')}": args for each in found for cls, args in each.items()}


def wrong(lab: Path, *rows: dict[str, str], columns: str = "") -> str:
    path = csv(lab, *rows, columns=columns)
    before = {each: each.read_bytes() for each in lab.rglob("*") if each.is_file()}
    with pytest.raises(ConfigurationError) as refused:
        inventory.plan(path, config.load(lab / "farm.yaml"), lab / "farm.yaml")
    assert main(["farm", "add", str(path)]) == 2
    assert {each: each.read_bytes() for each in lab.rglob("*") if each.is_file()} == before
    return str(refused.value)


def test_a_row_becomes_an_environment_that_a_run_would_take(lab: Path) -> None:
    assert add(lab, row(1, sdmux="pci-0000:00:14.0-usb-0:3", sensor="/dev/i2c-1", tester="root@pc-1")) == 0
    env = lab / "envs" / "sk-1.yaml"
    assert list(envfile.problems(env)) == []
    assert [each for each in envfile.refusals(env) if "192.168" not in each] == []
    found = resources(env)
    assert found["PDUDaemonPort:"] == {"host": "127.0.0.1:16421", "pdu": "rack1", "index": 1}
    assert found["USBSerialPort:main0"]["match"]["@ID_PATH"] == ROW["serial"]
    assert found["USBSerialPort:mcu"]["match"] == {"@ID_PATH": ROW["serial"], "ID_USB_INTERFACE_NUM": "03"}
    assert found["HttpDigitalOutput:B9"]["url"] == "http://10.0.0.9/sk-1/9"
    assert found["RailSensors:"]["port"] == "/dev/i2c-1"
    assert envfile.names(env, "MultiplexedCardDriver")
    farm = config.load(lab / "farm.yaml")
    assert [(board.name, Path(board.env).name) for board in farm.boards] == [
        ("am62x-sk-1", "am62x.yaml"),
        ("sk-1", "sk-1.yaml"),
    ]
    assert [schedule.board for schedule in farm.schedules] == ["am62x-sk-1", "sk-1"]
    assert "# the last line" in (lab / "farm.yaml").read_text()


def test_what_a_row_does_not_say_is_left_out_and_named(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert add(lab, row(1, straps="", medium="emmc", serial="console-1:7001")) == 0
    env = lab / "envs" / "sk-1.yaml"
    assert list(envfile.problems(env)) == []
    assert envfile.arguments_of(env, "BoardStrategy")["medium"] == "emmc"
    assert not any(envfile.names(env, each) for each in ("BootModeDriver", "RailsDriver", "WakePinsDriver"))
    assert resources(env)["NetworkSerialPort:main0"] == {
        "name": "main0",
        "host": "console-1",
        "port": 7001,
        "speed": 115200,
        "protocol": "rfc2217",
    }
    printed = capsys.readouterr().out
    for column in ("straps", "sensor", "wake", "tester", "side_serial", "serial"):
        assert f"  {column}: " in printed, column


def test_a_second_time_nothing_changes_and_more_rows_add_their_boards_only(lab: Path) -> None:
    assert add(lab, row(1)) == 0
    env = lab / "envs" / "sk-1.yaml"
    env.write_text(env.read_text().replace("interface: eth0", "interface: eth1"))  # a person's
    before = {path: path.read_bytes() for path in (env, lab / "farm.yaml")}
    assert add(lab, row(1)) == 0
    assert {path: path.read_bytes() for path in before} == before
    assert add(lab, row(1), row(2)) == 0
    assert env.read_bytes() == before[env]
    assert [board.name for board in config.load(lab / "farm.yaml").boards] == ["am62x-sk-1", "sk-1", "sk-2"]


def test_a_new_board_is_kept_until_it_has_qualified_and_only_once(lab: Path) -> None:
    assert add(lab, row(1)) == 0
    with open_store(str(lab / "results.db")) as store:
        book = ReservationBook(store)
        assert [(hold.board, hold.kind) for hold in book.standing()] == [("sk-1", QUALIFYING)]
        assert [entry.action for entry in Audit(store).entries(board="sk-1")] == ["add board"]
    assert main(["farm", "qualify", "sk-1", "--accept", "measured elsewhere"]) == 0
    assert add(lab, row(1), row(2)) == 0
    with open_store(str(lab / "results.db")) as store:
        assert [hold.board for hold in ReservationBook(store).standing()] == ["sk-2"]
        assert "accept board" in [entry.action for entry in Audit(store).entries(board="sk-1")]


def test_with_a_coordinator_a_board_is_a_place_and_its_host_exports_it(lab: Path) -> None:
    text = (lab / "farm.yaml").read_text().replace("user: boardlab", "user: boardlab\ncoordinator: 127.0.0.1:20408")
    (lab / "farm.yaml").write_text(text + "hosts: [{name: lab-1}, {name: lab-2}]\n")
    farm = config.load(lab / "farm.yaml")
    path = csv(lab, row(1, host="lab-1"), row(2, host="lab-2"))
    written = inventory.write(inventory.plan(path, farm, lab / "farm.yaml"), lab / "farm.yaml")
    exports = yaml.safe_load((lab / "exports" / "lab-2.yaml").read_text())
    assert exports["sk-2"]["power"] == {"cls": "PDUDaemonPort", "host": "127.0.0.1:16421", "pdu": "rack1", "index": 2}
    assert exports["sk-2"]["main0"]["cls"] == "USBSerialPort"
    assert envfile.arguments_of(lab / "envs" / "sk-2.yaml", "RemotePlace", "resources") == {
        "cls": "RemotePlace",
        "name": "sk-2",
    }
    assert len(written) == 5
    assert inventory.plan(path, config.load(lab / "farm.yaml"), lab / "farm.yaml").new == {}


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([row(1, type="am62x_sk")], "boards.csv:2: type: no type 'am62x_sk' with an environment; is am62xx_sk meant?"),
        ([row(1, outlet="one")], "boards.csv:2: outlet: 'one': a whole number"),
        ([row(1, pdu="rack9")], "boards.csv:2: pdu: "),
        ([row(1), row(2, outlet="1")], "boards.csv:3: outlet: 1 is that of sk-1, too (line 2)"),
        ([row(1), row(2, serial=ROW["serial"])], f"boards.csv:3: serial: {ROW['serial']} is that of sk-1"),
        ([row(1), row(1, outlet="2")], "boards.csv:3: name: sk-1 is that of sk-1"),
        ([row(1, serial="")], "boards.csv:2: serial: it is empty"),
        ([row(1, straps="10.0.0.9/3")], "boards.csv:2: straps: "),
        ([row(1, name="sk 1")], "boards.csv:2: name: 'sk 1'"),
        ([row(1, colour="red")], "boards.csv:1: no column 'colour'"),
        ([], "boards.csv:1: no boards"),
    ],
)
def test_a_wrong_row_is_named_with_its_column_and_nothing_is_written(
    lab: Path, rows: list[dict[str, str]], says: str
) -> None:
    assert says in wrong(lab, *rows)


def test_a_missing_column_and_all_wrong_rows_are_named_at_once(lab: Path) -> None:
    assert not missing_facts(wrong(lab, row(1), columns="name,type,serial,pdu"), "boards.csv:1", "column outlet")
    both = wrong(lab, row(1, outlet="x"), row(2, outlet="y"))
    assert "boards.csv:2: outlet: 'x'" in both
    assert "boards.csv:3: outlet: 'y'" in both


def test_a_row_that_contradicts_an_environment_is_refused_with_its_column(lab: Path) -> None:
    assert add(lab, row(1)) == 0
    assert "boards.csv:2: outlet: " in wrong(lab, row(1, outlet="7"))
    assert "boards.csv:2: serial: " in wrong(lab, row(1, serial="pci-0000:00:14.0-usb-0:9"))
    assert not missing_facts(wrong(lab, row(2, outlet="1")), "boards.csv:2: outlet", "rack1 1", "sk-1")
