"""`lab env port`: the device that `lab console attach` takes, for any environment with a console."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import package_data
from lab.cli import main

ENV = """
imports: [lab.drivers, STRATEGY]
targets:
  main:
    resources:
      - {port}
      - NetworkPowerPort: {{model: rest, host: 'http://127.0.0.1/', index: '1'}}
    drivers:
      - NetworkPowerDriver: {{}}
      {drivers}
""".replace("STRATEGY", str(package_data.strategy_file()))
STRATEGY = "- StampedConsoleDriver: {}\n      - BoardStrategy: {board_type: am62xx_sk, board: b-1}"
LOCAL = "RawSerialPort: {port: /dev/ttyUSB7, speed: 115200}"


@pytest.mark.parametrize("drivers", [STRATEGY, "- SerialDriver: {}"])
def test_the_console_of_an_environment_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], drivers: str
) -> None:
    path = tmp_path / "env.yaml"
    path.write_text(ENV.format(port=LOCAL, drivers=drivers))
    assert main(["env", "port", "--env", str(path)]) == 0
    assert capsys.readouterr().out == "/dev/ttyUSB7\n"


@pytest.mark.parametrize(
    ("port", "drivers", "code", "says"),
    [
        (LOCAL, "- NetworkPowerDriver: {name: other}", 2, "it has no console driver: add one"),
        (
            "NetworkSerialPort: {host: exporter, port: 4000, speed: 115200}",
            "- SerialDriver: {}",
            2,
            "its console (SerialDriver) is no serial port of this host; run this where the port is",
        ),
        (
            "USBSerialPort: {match: {ID_PATH: nowhere}}",
            STRATEGY,
            1,
            "Is it plugged in, and its resource in the env right?",
        ),
    ],
)
def test_a_console_that_cannot_be_attached_to_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], port: str, drivers: str, code: int, says: str
) -> None:
    path = tmp_path / "env.yaml"
    path.write_text(ENV.format(port=port, drivers=drivers))
    assert main(["env", "port", "--env", str(path)]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert says in said.err
