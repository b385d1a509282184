"""Suites: what an order of `lab run` measures."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import ConfigurationError
from lab.farm import job_request

TESTS_PERF = Path(__file__).parents[3] / "tests_perf"


def names(suite: str) -> set[str]:
    return {path.name for path in job_request.files(TESTS_PERF, suite)}


def test_the_guide_is_every_file_once() -> None:
    measured = [name for suite in job_request.expand(["guide"]) for name in names(suite)]
    assert sorted(measured) == sorted(path.name for path in TESTS_PERF.glob("test_*.py"))


def test_a_suite_is_ordered_once_however_often_it_is_named() -> None:
    assert job_request.expand(["low_power", "guide", "boot", "crypto"]) == ("low_power", "boot", "sections", "crypto")


def test_a_chapter_has_the_name_of_its_file() -> None:
    assert names("crypto") == {"test_crypto.py"}
    assert names("low_power") == {"test_low_power.py"}


@pytest.mark.parametrize("suite", ["power", "", "../test_boot", "guide "])
def test_an_unknown_suite_is_refused_with_those_that_there_are(suite: str) -> None:
    with pytest.raises(ConfigurationError, match=r"guide, alsa, .*sections"):
        job_request.files(TESTS_PERF, suite)


def test_a_folder_without_suites_says_how_to_name_another(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--tests"):
        job_request.files(tmp_path, "boot")
