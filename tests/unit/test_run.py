"""The front door, ./run: what it makes of tox's options."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).resolve().parents[2] / "run"
ASK = f'source "{RUN}" help > /dev/null && if needs_renderer "$@"; then echo yes; else echo no; fi'


def needs_renderer(options: str, **environment: str) -> bool:
    """Whether `./run test OPTIONS` installs what draws pages."""
    done = subprocess.run(
        ["bash", "-c", ASK, "run", *options.split()],
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return {"yes": True, "no": False}[done.stdout.strip()]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", True),
        ("-r", True),
        ("-- -k web", True),
        ("-e drawn", True),
        ("-edrawn", True),
        ("-e=drawn", True),
        ("-re drawn", True),
        ("-e lint,integration", True),
        ("-e lint -e integration", True),
        ("-e ALL", True),
        ("-f py311", True),
        ("-e py311", False),
        ("-e lint,py312 -r", False),
        ("-e uboot -- tests/drawn -k integration", False),
        ("-e py311 -- -e drawn", False),
        ("-e", False),
    ],
)
def test_pages_are_drawn_where_an_environment_that_draws_is_asked_for(options: str, expected: bool) -> None:
    assert needs_renderer(options) is expected


def test_an_environment_can_be_asked_for_by_the_environment() -> None:
    assert not needs_renderer("", TOXENV="lint,type")
    assert needs_renderer("", TOXENV="lint,drawn")
    assert not needs_renderer("-e lint", TOXENV="drawn")
