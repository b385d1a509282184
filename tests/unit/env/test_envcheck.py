"""`lab env check` finds what labgrid swallows, and what it would answer with a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lab.cli.env import app
from lab.env import envfile

ROOT = Path(__file__).parents[3]
AM62 = (ROOT / "envs" / "am62x.yaml").read_text(encoding="utf-8")
CONSOLE = "      - StampedConsoleDriver:\n          bindings: {port: main0}\n"
DRIVERS = "      - HttpDigitalOutputDriver: {name: B3, bindings: {http: B3}}\n"


def problems(tmp_path: Path, old: str, new: str, text: str = AM62) -> list[str]:
    path = tmp_path / "lab.yaml"
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return list(envfile.problems(path))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("delay: 2.0", "delay: 2", "StampedPDUDaemonDriver: delay: 2 is a whole number; write 2.0"),
        ("index: 1 ", "indx: 1 ", "PDUDaemonPort: unknown key 'indx' (did you mean 'index'?)"),
        ("          pdu: rack1", "", "PDUDaemonPort: pdu is missing"),
        ("username: root", "username: 7", "ShellDriver: username: expected str, got 7"),
        (DRIVERS, "", "BootModeDriver: lines: bit 3: no driver is called 'B3' above it"),
        (DRIVERS, DRIVERS.replace("http: B3", "http: B7"), "http: no HttpDigitalOutput is called 'B7' above it"),
        (DRIVERS, DRIVERS.replace(", bindings: {http: B3}", ""), "http may be any of: HttpDigitalOutput 'B3'"),
        (DRIVERS, DRIVERS.replace("http: B3", "htpp: B3"), "it has no slot 'htpp'; its slots are: http"),
        (DRIVERS, DRIVERS * 2, "there are two called 'B3'"),
        (
            "address: 0x4c",
            "adress: 0x4c",
            "RailSensors: the rails of this board: rail 'soc_dvdd_3v3': unknown key 'adress'",
        ),
        ("address: 0x4c", "address: 0x45", "address 0x45 is another rail's too"),
        ("backend: ina231", "backend: ina230", "'backend' must be in ('ina226', 'ina231',"),
        (
            CONSOLE,
            CONSOLE + "      - SerialDriver: {bindings: {port: mcu}}\n",
            "console may be any of: StampedConsoleDriver, SerialDriver",
        ),
        (
            "      - StampedPDUDaemonDriver:\n          delay: 2.0\n",
            "",
            "BoardStrategy: it needs a PowerProtocol; add one to the target's drivers",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place_and_its_mend(tmp_path: Path, old: str, new: str, says: str) -> None:
    found = problems(tmp_path, old, new)
    assert [problem for problem in found if says in problem], found
    assert all("lab.yaml: targets.main." in problem for problem in found)


def test_a_raw_network_port_is_too_slow_for_a_console(tmp_path: Path) -> None:
    raw = "      - NetworkSerialPort:\n          host: h\n          port: 1\n          protocol: raw\n      - USBSerialPort:"
    serial = AM62.replace("StampedConsoleDriver", "SerialDriver", 1)
    slow = "protocol: raw is read one byte"
    assert any(slow in found for found in problems(tmp_path, "      - USBSerialPort:", raw, serial))
    assert not any(slow in found for found in problems(tmp_path, "      - USBSerialPort:", raw))


def test_a_raw_network_port_of_labgrids_own_drivers_is_not_ours_to_refuse(tmp_path: Path) -> None:
    text = "targets:\n  main:\n    resources:\n      NetworkSerialPort: {host: h, port: 1, protocol: raw}\n"
    text += (
        "    drivers:\n      - SerialDriver: {}\n      - ShellDriver: {prompt: p, login_prompt: l, username: root}\n"
    )
    assert problems(tmp_path, "targets:", "targets:", text) == []


def test_a_driver_that_comes_too_late_is_said_to_move_up(tmp_path: Path) -> None:
    shell = AM62.replace(CONSOLE, "", 1).replace("      - BoardStrategy:", CONSOLE + "      - BoardStrategy:", 1)
    found = problems(tmp_path, "targets:", "targets:", shell)
    assert any("UBootDriver: it needs a ConsoleProtocol; move StampedConsoleDriver above it" in p for p in found), (
        found
    )


def test_all_mistakes_are_named_at_once(tmp_path: Path) -> None:
    twice = AM62.replace("delay: 2.0", "delay: 2", 1)
    assert len(problems(tmp_path, "username: root", "username: 7", twice)) == 2


def test_a_remote_place_is_wired_by_its_coordinator(tmp_path: Path) -> None:
    text = "targets:\n  main:\n    resources:\n      RemotePlace: {name: x}\n    drivers:\n      - SerialDriver: {}\n"
    assert problems(tmp_path, "targets:", "targets:", text) == []


def test_the_command_prints_each_problem_and_its_exit_code_says_so(tmp_path: Path) -> None:
    problems(tmp_path, "delay: 2.0", "delay: 2")
    good, bad = ROOT / "envs" / "am62x.yaml", tmp_path / "lab.yaml"
    assert CliRunner().invoke(app, ["check", str(good)]).exit_code == 0
    result = CliRunner().invoke(app, ["check", str(bad)])
    assert result.exit_code == 2
    assert "write 2.0" in result.stdout
    listed = json.loads(CliRunner().invoke(app, ["check", str(bad), "--json"]).stdout)
    assert len(listed["problems"]) == 1


def test_the_list_names_the_board_of_each_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    rows = {row["env"]: row for row in json.loads(CliRunner().invoke(app, ["list", "--json"]).stdout)}
    assert rows["am62x.yaml"]["board_type"] == "am62xx_sk"
    assert rows["sim-am437x.yaml"]["board"] == "am43xx-gpevm-1"


PLACE = """
targets:
  main:
    resources:
      - RemotePlace: {name: b1}
      %s
    drivers:
      - StampedPDUDaemonDriver: {}
      - StampedConsoleDriver: {}
      - %s
      - UBootDriver: {prompt: '=> '}
      - BoardStrategy: {board_type: am62xx_sk, board: b1}
imports: [lab.drivers, lab.strategies]
"""
SENSORS = "- RailSensors: {backend: hwmon, port: /sys/class/hwmon%s}"


@pytest.mark.parametrize(
    ("resource", "driver", "says"),
    [
        (SENSORS % "", "RailsDriver: {}", "the board's console is the place's, and these sensors are this host's"),
        (SENSORS % ", at: elsewhere", "RailsDriver: {}", "'at' must be in"),
        (SENSORS % ", at: console", "RailsDriver: {}", ""),
        ("", "RailsDriver: {}", "RailsDriver: it works only on the host that the hardware is plugged into"),
        ("", "MultiplexedCardDriver: {}", "MultiplexedCardDriver: it works only on the host"),
        ("", "USBSDMuxDriver: {}\n      - MultiplexedCardDriver: {}", ""),
        ("- VirtualSDMux: {url: 'http://127.0.0.1:1/', image: /x}", "MultiplexedCardDriver: {}", ""),
        (
            "",
            "UBootWriterDriver: {media: {emmc: mmc 0}, over: usb}",
            "over: usb: a place cannot give the board's USB port",
        ),
        ("", "UBootWriterDriver: {media: {emmc: mmc 0}, over: console}", ""),
        ("", "CommandOutputDriver: {name: B0, asserted: [x], at: console}", ""),
        ("", "CommandOutputDriver: {name: B0, asserted: [x], at: lab2}", "'at' must be in"),
        ("", "AutomationBootModeDriver: {}", "A place cannot give it: run this on the board's host"),
    ],
)
def test_what_cannot_be_done_on_another_host_is_said_before_a_run(
    tmp_path: Path, resource: str, driver: str, says: str
) -> None:
    (tmp_path / "lab.yaml").write_text(PLACE % (resource, driver))
    found = list(envfile.problems(tmp_path / "lab.yaml"))
    assert bool(found) is bool(says), found
    assert says in "".join(found)


def test_a_command_at_a_console_that_does_not_say_where_it_is_is_no_strap(tmp_path: Path) -> None:
    text = PLACE % ("", "CommandOutputDriver: {name: B0, asserted: [x], at: console}")
    (tmp_path / "lab.yaml").write_text(text.replace("StampedConsoleDriver: {}", "SerialDriver: {}"))
    assert "does not say where it is" in "".join(envfile.problems(tmp_path / "lab.yaml"))


@pytest.mark.parametrize(
    ("resource", "driver", "transport", "says"),
    [
        (
            "",
            "CommandOutputDriver: {name: B0, asserted: [x], at: console}",
            "",
            "its commands run on the console's host",
        ),
        ("", "CommandOutputDriver: {name: B0, asserted: [x], at: console}", "transport: tls", "through ssh"),
        ("", "CommandOutputDriver: {name: B0, asserted: [x], at: console}", "transport: ssh", ""),
        ("", "CommandOutputDriver: {name: B0, asserted: [x]}", "", ""),
        ("", "USBSDMuxDriver: {}\n      - MultiplexedCardDriver: {}", "", "`lab farm card` writes the card"),
        (SENSORS % ", at: console", "RailsDriver: {}", "", ""),
        (
            "- RawSerialPort: {port: /dev/null}",
            "CommandOutputDriver: {name: B0, asserted: [x], at: console}",
            "",
            "",
        ),
    ],
)
def test_what_needs_ssh_even_where_consoles_go_by_tls_is_said_and_is_no_problem(
    tmp_path: Path, resource: str, driver: str, transport: str, says: str
) -> None:
    text = (PLACE % (resource, driver)).replace("StampedConsoleDriver: {}", f"StampedConsoleDriver: {{{transport}}}")
    (tmp_path / "lab.yaml").write_text(text)
    done = CliRunner().invoke(app, ["check", str(tmp_path / "lab.yaml")])
    assert done.exit_code == 0
    *said, last = done.stdout.splitlines()
    assert last.endswith("nothing wrong")
    assert bool(said) is bool(says)
    assert says in "".join(said)
    assert all("`ssh HOST true` must work" in each and "power go by TLS" in each for each in said)
