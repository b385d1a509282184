"""`lab env check` finds what labgrid swallows, and what it would answer with a traceback."""

from __future__ import annotations

import json
import random
import re
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
from labgrid import Environment
from support.atlength import either
from support.facts import missing_facts
from support.strapserver import strap_server
from typer.testing import CliRunner

from lab import package_data
from lab.cli.env import app
from lab.env import envfile
from lab.env.power_state import lacks, straps_of
from lab.errors import ConfigurationError
from lab.pytest_plugin import board
from lab.terminal import plain_text

ROOT = Path(__file__).parents[3]


def environment(name: str) -> str:
    """The text of a shipped environment, for a folder without `strategies` beside it."""
    text = (ROOT / "envs" / name).read_text(encoding="utf-8")
    return text.replace(package_data.STRATEGY_BESIDE, str(package_data.strategy_file()))


AM62 = environment("am62x.yaml")
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
        ("backend: ina231", "backend: ina23", "backend 'ina23': there are ina226, ina230, ina231, "),
        ("          backend: ina231\n", "", "RailSensors: backend is missing"),
        (
            "board_type: am62xx_sk",
            "board_type: am62x_sk",
            "board_type: no board type 'am62x_sk'; there are: am43xx-gpevm",
        ),
        (
            "board_type: am62xx_sk",
            "board_type: am62xx_sk\n          medium: usb",
            "has no medium 'usb'; it has: sd, emmc",
        ),
        ("{3: B3, 4: B4, 5: B5, 9: B9}", "{3: [B3]}", "BootModeDriver: lines: 3: ['B3'] is not `bit"),
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
    assert any(not missing_facts(p, "UBootDriver", "ConsoleProtocol", "move StampedConsoleDriver") for p in found), (
        found
    )


def test_all_mistakes_are_named_at_once(tmp_path: Path) -> None:
    twice = AM62.replace("delay: 2.0", "delay: 2", 1)
    assert len(problems(tmp_path, "username: root", "username: 7", twice)) == 2


def test_a_remote_place_is_wired_by_its_coordinator(tmp_path: Path) -> None:
    text = "targets:\n  main:\n    resources:\n      RemotePlace: {name: x}\n    drivers:\n      - SerialDriver: {}\n"
    assert problems(tmp_path, "targets:", "targets:", text) == []


def edited(text: str) -> str:
    """A template whose values a lab has found right: it removed the marks, and wrote its own addresses."""
    return re.sub(r" # LAB\b.*", "", text).replace("192.0.2.", "10.0.0.")


def refused(tmp_path: Path, old: str, new: str) -> list[str]:
    """What a run would refuse of the edited environment with this change."""
    text = edited(AM62)
    assert problems(tmp_path, old, new, text) == []
    return list(envfile.refusals(tmp_path / "lab.yaml"))


def test_of_an_edited_template_a_run_refuses_nothing(tmp_path: Path) -> None:
    assert refused(tmp_path, "", "") == []


@pytest.mark.parametrize("env", sorted(path.name for path in (ROOT / "envs").glob("*.yaml")))
def test_of_a_shipped_environment_only_the_values_of_the_lab_are_refused(env: str) -> None:
    path = ROOT / "envs" / env
    lines = path.read_text(encoding="utf-8").splitlines()
    marked = [number for number, line in enumerate(lines, start=1) if "# LAB" in line]
    assert [int(found.removeprefix(f"{path}:").partition(":")[0]) for found in envfile.refusals(path)] == marked
    assert bool(marked) is (not env.startswith(("sim-", "virtual")))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "lines: {3: B3, 4: B4, 5: B5, 9: B9}",
            "lines: {3: B3, 4: B4, 9: B9}",
            "targets.main.drivers.BootModeDriver: medium ospi (boot mode 0x73) needs strap(s) 5, which no line drives",
        ),
        ("fixed: 0x043", "fixed: 0x003", "medium sd (boot mode 0x243) needs strap(s) 6"),
        ("prompt: '=> '", "prompt: 'U-Boot> '", "UBootDriver: prompt: 'U-Boot> ' is not found in '=> '"),
        ("autoboot: Hit any key", "autoboot: Press SPACE", "UBootDriver: autoboot: "),
        ("'am62xx-evm login: '", "'beagle login: '", "is not found in 'am62xx-evm login: ', which am62xx_sk prints"),
        ("'root@am62xx-evm:[^ ]*# '", "'root@am64xx-evm:[^ ]*# '", "ShellDriver: prompt: "),
        (
            "'am62xx-evm login: '",
            "'am62xx-evm (login'",
            "ShellDriver: login_prompt: 'am62xx-evm (login' is no regular",
        ),
        (
            "      benchmarks:",
            "      benchmark:",
            "targets.main.options: benchmark is no option of boardlab (did you mean",
        ),
        ("        interface: eth0", "        interfce: eth0", "options.benchmarks: extra fields found (interfce)"),
        ("targets:", "options: {relese: '11.01'}\ntargets:", "options: relese is no option of boardlab (did you mean"),
        ("  tester:\n", "  tester:\n    options: [release]\n", "targets.tester.options: expected `name: value`"),
        ("root@10.0.0.20", "root@192.0.2.20", "192.0.2.20 is no address of a lab"),
    ],
)
def test_what_a_run_would_refuse_is_named_with_its_place(tmp_path: Path, old: str, new: str, says: str) -> None:
    found = refused(tmp_path, old, new)
    assert any(says in each for each in found), found
    assert all(str(tmp_path / "lab.yaml") in each for each in found)


@pytest.mark.parametrize("generic", ["'login: '", "'am62\\w+-evm login: '"])
def test_a_prompt_that_fits_the_type_in_other_words_is_right(tmp_path: Path, generic: str) -> None:
    assert refused(tmp_path, "'am62xx-evm login: '", generic) == []


def test_options_of_the_users_own_tests_are_theirs(tmp_path: Path) -> None:
    assert refused(tmp_path, "targets:", "options: {colour: red}\ntargets:") == []


HERE = """
targets:
  main:
    resources:
      - PDUDaemonPort: {host: 'ADDRESS', pdu: p, index: 1}
      - RawSerialPort: {port: PORT}
    drivers:
      - StampedPDUDaemonDriver: {}
      - StampedConsoleDriver: {}
      - BoardStrategy: {board_type: am62xx_sk, board: b1}
imports: [lab.drivers, STRATEGY]
""".replace("STRATEGY", str(package_data.strategy_file()))


def test_what_is_not_there_is_found(tmp_path: Path) -> None:
    path = tmp_path / "here.yaml"
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        path.write_text(HERE.replace("ADDRESS", address).replace("PORT", "/dev/null"))
        there = CliRunner().invoke(app, ["check", "--env", str(path)])
        assert (there.exit_code, there.stdout.split(";")[0]) == (0, f"{path}: nothing wrong")
    for wrong in ("127.0.0.1:first", "127.0.0.1:70000", "[::1"):
        path.write_text(HERE.replace("ADDRESS", wrong).replace("PORT", "/dev/null"))
        (problem,) = lacks(path)
        assert not missing_facts(problem, "PDUDaemonPort", wrong, "HOST:PORT")
    path.write_text(HERE.replace("ADDRESS", address).replace("PORT", "/dev/ttyNowhere"))
    found = list(lacks(path))
    assert len(found) == 2
    assert not missing_facts(found[0], "PDUDaemonPort", address)
    assert not missing_facts(found[1], "RawSerialPort", "/dev/ttyNowhere")
    result = CliRunner().invoke(app, ["check", "--env", str(path)])
    assert (result.exit_code, len(result.stdout.splitlines())) == (2, 3)


def test_a_driver_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    own = "import attr\nfrom labgrid.driver import Driver\nfrom labgrid.factory import target_factory\n"
    own += "@target_factory.reg_driver\n@attr.s(eq=False)\nclass Own(Driver):\n"
    own += "    def __attrs_post_init__(self):\n        raise ValueError('it needs 12 V')\n"
    (tmp_path / "own.py").write_text(own)
    path = tmp_path / "lab.yaml"
    path.write_text(f"targets: {{main: {{drivers: [Own: {{}}]}}}}\nimports: ['{tmp_path}/own.py']\n")
    assert list(envfile.problems(path)) == []
    assert list(lacks(path)) == [f"{path}: it needs 12 V"]


POWERED = """
targets:
  main:
    resources:
      - %s
      - RawSerialPort: {port: /dev/null}
    drivers:
      - %s: {}
      - StampedConsoleDriver: {}
      - BoardStrategy: {board_type: am62xx_sk, board: b1}
imports: [lab.drivers, STRATEGY]
""".replace("STRATEGY", str(package_data.strategy_file()))


@pytest.mark.parametrize(
    ("port", "driver"),
    [
        ("NetworkPowerPort: {model: netio, host: h, index: 1}", "NetworkPowerDriver"),
        ("NetworkPowerPort: {model: netio, host: h, index: '1'}", "NetworkPowerDriver"),
        ("YKUSHPowerPort: {serial: Y1, index: 2}", "YKUSHPowerDriver"),
        ("PDUDaemonPort: {host: h, pdu: p, index: '1'}", "StampedPDUDaemonDriver"),
    ],
)
def test_an_outlet_is_a_number_or_a_text_as_labgrid_takes_it(tmp_path: Path, port: str, driver: str) -> None:
    assert problems(tmp_path, "", "", POWERED % (port, driver)) == []
    wrong = problems(tmp_path, "", "", POWERED % (re.sub(r"index: .*}", "index: one}", port), driver))
    if "YKUSH" not in port:  # whose outlet is any text
        assert not missing_facts(wrong[0], "index", "'one'")


DOCKER = """
targets:
  main:
    resources:
      - DockerDaemon: {docker_daemon_url: 'unix://var/run/docker.sock'}
    drivers:
      - DockerDriver: {image_uri: i, container_name: c, host_config: {}, network_services: [{port: 22, username: r}]}
      - SSHDriver: {keyfile: ''}
"""


def test_docker_makes_the_network_service_of_the_drivers_below_it(tmp_path: Path) -> None:
    assert problems(tmp_path, "", "", DOCKER) == []
    ssh = "      - SSHDriver: {keyfile: ''}\n"
    early = DOCKER.replace(ssh, "").replace("    drivers:\n", f"    drivers:\n{ssh}")
    assert not missing_facts(problems(tmp_path, "", "", early)[0], "SSHDriver", "NetworkService")


OWN_KEYS = """
colour: red
targets:
  main:
    env: {nv/boot.default: disk}
    resources:
      - NetworkService: {address: 192.0.2.9, username: root, room: attic}
    drivers:
      - SSHDriver: {}
"""


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ("{prompt: '=> '}", []),
        ("{prompt: '=> ', boot_command: run bootcmd, boot_commands: {}}", []),
        ("{prompt: '=> ', boot_commands: {net: 'tftp; bootm'}}", ["boot_commands"]),
        ("{prompt: '=> ', boot_command: run netboot}", ["boot_command"]),
    ],
)
def test_boot_commands_that_are_not_sent_are_a_remark(tmp_path: Path, arguments: str, names: list[str]) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(
        AM62.replace("      - BoardStrategy:", f"      - UBootDriver: {arguments}\n      - BoardStrategy:", 1)
    )
    places = [line.removeprefix(f"{path}: ").partition(":")[0] for line in envfile.remarks(path)]
    assert places == [f"targets.main.drivers.UBootDriver.{name}" for name in names]
    path.write_text(path.read_text().replace("- BoardStrategy:", "- UBootStrategy:"))
    assert not any("does not send" in line for line in envfile.remarks(path)), "labgrid's own strategy sends them"


@pytest.mark.filterwarnings("ignore:unsupported attribute")
def test_a_key_of_the_projects_own_is_a_remark(tmp_path: Path) -> None:
    assert problems(tmp_path, "", "", OWN_KEYS) == []
    path = tmp_path / "lab.yaml"
    remarks = [line.removeprefix(f"{path}: ") for line in envfile.remarks(path)]
    facts = [["'colour'"], ["targets.main: ", "'env'"], ["resources.NetworkService: ", "'room'"]]
    assert [missing_facts(remark, *place) for remark, place in zip(remarks, facts, strict=True)] == [[], [], []]
    assert remarks[0].startswith("unknown key"), "of the file, without a place"
    done = CliRunner().invoke(app, ["check", "--env", str(path)])
    assert (done.exit_code, done.stdout.splitlines()[-1].split(";")[0]) == (0, f"{path}: nothing wrong")
    listed = json.loads(CliRunner().invoke(app, ["check", "--env", str(path), "--json"]).stdout)
    assert (listed["problems"], len(listed["remarks"])) == ([], 4), "with the address, as no run of boardlab has it"
    assert "unknown key 'targts'" in problems(tmp_path, "colour: red", "targts: {}", OWN_KEYS)[0]
    typed = POWERED % ("PDUDaemonPort: {host: h, pdu: p, index: 1}", "StampedPDUDaemonDriver")
    found = problems(tmp_path, "StampedConsoleDriver: {}", "StampedConsoleDriver: {room: attic}", typed)
    assert not missing_facts(found[0], "StampedConsoleDriver", "'room'"), "boardlab's own drivers have no other keys"


RESOURCES = (
    *("NetworkPowerPort: {model: netio, host: h, index: 1", "NetworkPowerPort: {model: netio, host: h, index: '2'"),
    *("PDUDaemonPort: {host: h, pdu: p, index: '2'", "PDUDaemonPort: {host: h, pdu: p, index: 1.0"),
    *("YKUSHPowerPort: {serial: Y, index: 1", "RawSerialPort: {port: /dev/null", "RawSerialPort: {port: 7"),
    *("NetworkSerialPort: {host: h, port: 1", "NetworkService: {address: a, username: r", "PDUDaemonPort: {index: x"),
)
LABGRID_DRIVERS = (
    *("ManualPowerDriver: {x: 1", "PDUDaemonDriver: {delay: 1.5", "NetworkPowerDriver: {delay: 1.0"),
    *("SerialDriver: {x: 1", "ExternalConsoleDriver: {cmd: c", "FakeConsoleDriver: {x: 1", "FakeCommandDriver: {x: 1"),
    *("ShellDriver: {prompt: p, login_prompt: l, username: r", "SSHDriver: {x: 1", "BareboxDriver: {prompt: p"),
    *("Picky: {x: 1", "Choosy: {x: 1", "Choosy: {x: 1"),
)
OWN_DRIVERS = """
import attr
from labgrid.driver import Driver
from labgrid.factory import target_factory
from labgrid.protocol import CommandProtocol, ConsoleProtocol, PowerProtocol

@target_factory.reg_driver
@attr.s(eq=False)
class Picky(Driver):
    bindings = {"command": CommandProtocol, "port": {"RawSerialPort", "NetworkSerialPort"}}

@target_factory.reg_driver
@attr.s(eq=False)
class Choosy(Driver):
    bindings = {"power": {PowerProtocol, None}, "console": {ConsoleProtocol, None}}
"""


@pytest.mark.filterwarnings("ignore:unsupported attribute")  # labgrid's, of a key that it ignores
@pytest.mark.longer
@pytest.mark.parametrize("seed", range(either(2, 4)))
def test_a_target_that_labgrid_makes_has_no_problem(tmp_path: Path, seed: int) -> None:
    chance, path, made = random.Random(seed), tmp_path / "lab.yaml", 0
    (tmp_path / "own_drivers.py").write_text(OWN_DRIVERS)
    for _ in range(either(80, 800)):
        text = "imports: [own_drivers.py]\ntargets:\n  main:\n    colour: red\n"
        resources, drivers = (chance.sample(pool, k=chance.randrange(1, 6)) for pool in (RESOURCES, LABGRID_DRIVERS))
        for room, entries in (("resources", resources), ("drivers", drivers)):
            names = [
                chance.choice(("", "", ", name: default", f", name: n{number}")) for number in range(len(entries))
            ]
            text += f"    {room}:\n"
            text += "".join(f"      - {entry}{name}}}\n" for entry, name in zip(entries, names, strict=True))
        path.write_text(text)
        found = list(envfile.problems(path))
        try:
            Environment(str(path)).get_target()
        except Exception:  # noqa: BLE001, S112 - labgrid refuses it
            continue
        finally:
            envfile._unregister({"own_drivers"})
        made += 1
        assert found == [], text
    assert made > 3


def test_the_command_prints_each_problem_and_its_exit_code_says_so(tmp_path: Path) -> None:
    problems(tmp_path, "delay: 2.0", "delay: 2")
    bad = tmp_path / "lab.yaml"
    result = CliRunner().invoke(app, ["check", "--env", str(bad)])
    assert result.exit_code == 2
    assert "write 2.0" in result.stdout
    listed = json.loads(CliRunner().invoke(app, ["check", "--env", str(bad), "--json"]).stdout)
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
imports: [lab.drivers, STRATEGY]
""".replace("STRATEGY", str(package_data.strategy_file()))
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


STRAPPED = """
targets:
  main:
    resources:
      - RawSerialPort: {port: /dev/null}
      - HttpDigitalOutput: {name: S0, url: URL/bit0, body_asserted: 'on', body_deasserted: 'off'MORE}
      - HttpDigitalOutput: {name: S1, url: URL/bit1, body_asserted: 'on', body_deasserted: 'off'MORE}
    drivers:
      - ManualPowerDriver: {name: b1}
      - StampedConsoleDriver: {}
      - HttpDigitalOutputDriver: {name: S0, bindings: {http: S0}}
      - HttpDigitalOutputDriver: {name: S1, bindings: {http: S1}}
      - BootModeDriver: {lines: {0: S0, 1: S1}}
      - BoardStrategy: {board_type: qemu-virt, board: b1, medium: emmc}
imports: [lab.drivers, STRATEGY]
""".replace("STRATEGY", str(package_data.strategy_file()))
READ_BACK = """, body_get_asserted: '.*"on".*', body_get_deasserted: '.*"off".*'"""


@pytest.mark.parametrize(("more", "failure"), [(READ_BACK, ""), ("", "strap_failed")])
def test_straps_are_tried_for_each_medium_and_stay_at_the_boards_own(tmp_path: Path, more: str, failure: str) -> None:
    path = tmp_path / "straps.yaml"
    with strap_server() as server:
        server.trouble = "json"
        path.write_text(STRAPPED.replace("URL", server.url).replace("MORE", more))
        done = CliRunner().invoke(app, ["straps", "--env", str(path), "--json"])
        rows = json.loads(done.stdout)
        assert {row["medium"]: row["boot_mode"] for row in rows} == {"sd": 1, "emmc": 2, "ospi": 3}
        assert {row["failure"] for row in rows} == {failure}
        assert done.exit_code == bool(failure)
        if not failure:
            assert server.levels == {"/bit0": b"off", "/bit1": b"on"}
        else:
            assert all("body_get_asserted" in row["message"] for row in rows)


def test_an_environment_without_straps_has_none_to_try(tmp_path: Path) -> None:
    path = tmp_path / "here.yaml"
    path.write_text(HERE.replace("ADDRESS", "127.0.0.1").replace("PORT", "/dev/null"))
    with pytest.raises(ConfigurationError, match="boot-mode driver"):
        straps_of(str(path))


MUTANTS = either(8, 60)  # of a seed
WORDS = (
    "comma",
    "''",
    "null",
    "[]",
    "{}",
    "-1",
    "1e400",
    "0x",
    "[1, {a: b}]",
    "{1: 2}",
    "!template $BASE",
    "*x",
    "é",
    "9" * 30,
)


def mutated(text: str, chance: random.Random) -> str:
    """An environment with one or two of its lines damaged, as by a person who edits it."""
    lines = text.splitlines()
    for _ in range(chance.choice((1, 1, 2))):
        at, word = chance.randrange(len(lines)), chance.choice(WORDS)
        line = lines[at]
        lines[at] = chance.choice(
            (
                "",
                f"{line}\n{line}",
                re.sub(r"(:|- )(\s*)[^:#]*(#.*)?$", rf"\1 {word}", line, count=1),
                re.sub(r"(:|- )(\s*)[^:#]*(#.*)?$", rf"\1 {word}", line, count=1),
                re.sub(r"[\w@']+(?=:)", word, line, count=1),
                f"  {line}",
                line[2:],
                line[: chance.randrange(len(line) + 1)],
                re.sub(r"\d+(\.\d+)?", word, line, count=1),
                lines[chance.randrange(len(lines))],
            )
        )
    return "\n".join(lines) + "\n"


@pytest.mark.filterwarnings("ignore:.*duplicate YAML dictionary key")  # labgrid's, of the two readings of a file
@pytest.mark.longer
@pytest.mark.parametrize("seed", range(4))
def test_of_a_damaged_environment_each_mistake_is_a_line_and_pytest_starts_with_the_same(
    tmp_path: Path, seed: int
) -> None:
    chance, path = random.Random(seed), tmp_path / "lab.yaml"
    texts = [environment(path.name) for path in sorted((ROOT / "envs").glob("*.yaml"))]
    for _ in range(MUTANTS):
        path.write_text(mutated(chance.choice(texts), chance), encoding="utf-8")
        found = list(envfile.problems(path))
        if not found:
            assert all(str(path) in each for each in envfile.refusals(path))
        said = ""
        try:
            board.configure(SimpleNamespace(option=SimpleNamespace(lg_env=str(path))))  # type: ignore[arg-type]
        except pytest.UsageError as error:
            said = str(error)
        if said or envfile.names(path, "BoardStrategy"):
            assert said == plain_text(found[0] if found else ""), path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("      - RailsDriver: {}", "      - RailsDriver: comma"),
        ("      - RailsDriver: {}", "      - 7: {}"),
        ("          backend: ina231\n", ""),
        ("  - lab.drivers", "  - [lab.drivers]"),
        ("name: B3\n", "name: {B3: 1}\n"),
    ],
)
def test_a_mistake_that_was_a_traceback_is_a_line(tmp_path: Path, old: str, new: str) -> None:
    assert all("lab.yaml: " in found for found in problems(tmp_path, old, new))
    assert problems(tmp_path, old, new)
