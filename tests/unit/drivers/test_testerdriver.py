"""TesterDriver: finds its program, and says what is wrong with it."""

from __future__ import annotations

import pytest
from labgrid.target import Target

from lab.drivers.testerdriver import TesterDriver
from lab.errors import ConfigurationError


def driver_of(*command: str) -> TesterDriver:
    target = Target("tester")
    driver = TesterDriver(target, None, command=list(command))
    target.activate(driver)
    return driver


def test_a_command_line_is_the_last_word_and_its_output_comes_back() -> None:
    assert driver_of("sh", "-c").run("echo out; echo err >&2; exit 3") == (["out"], ["err"], 3)


def test_lab_is_found_beside_our_python_where_it_is_not_in_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    out, _, status = driver_of("lab").run("--version")
    assert (status, out[0].startswith("boardlab ")) == (0, True)


def test_a_program_that_is_nowhere_is_named_with_its_mend() -> None:
    with pytest.raises(ConfigurationError, match=r"no-such-tester.*`command`"):
        driver_of("no-such-tester").run("true")
