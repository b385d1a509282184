"""The Chromium from npm: what a person reads who has no Node.js, no network, or a broken package."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import npm_browser
import pytest
from support.facts import missing_facts


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in npm's place, and an empty cache."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = programs / "npm"
    program.touch(mode=0o755)
    return program


def says(npm: Path, words: str) -> str:
    """The error of an npm that fails with these words."""
    npm.write_text(f"#!/bin/sh\necho '{words}' >&2\nexit 1\n", encoding="utf-8")
    with pytest.raises(npm_browser.NotSetUpError) as error, ExitStack() as stack:
        npm_browser.locked(stack)
    assert not (npm_browser.cache() / "installed").exists(), "the next one tries again"
    return str(error.value)


@pytest.mark.parametrize(
    "words",
    [
        "npm error code ENOTFOUND\nnpm error network request to https://registry.npmjs.org/react failed",
        "npm error code ECONNREFUSED",
        "npm error code E503\nnpm error 503 Service Unavailable - GET https://registry.npmjs.org/react",
    ],
)
def test_without_a_registry_the_error_says_so_and_what_to_do(npm: Path, words: str) -> None:
    message = says(npm, words)
    assert not missing_facts(message, "npm's registry", "(E")
    assert "npm config set registry" in message
    assert message.endswith("./run setup test")


def test_another_error_of_npm_is_shown_in_its_words(npm: Path) -> None:
    message = says(npm, "npm error code EINTEGRITY")
    assert message.endswith("npm error code EINTEGRITY\n")
    assert "cannot be reached" not in message


def test_without_nodejs_the_error_names_what_installs_it(npm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(npm.parent))
    npm.unlink()
    with (
        pytest.raises(npm_browser.NotSetUpError, match=r"npm .*run setup test"),
        ExitStack() as stack,
    ):
        npm_browser.locked(stack)
