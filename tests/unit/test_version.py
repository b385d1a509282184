"""The version that a tree builds as: of a release, of later commits, of a shallow clone, of an sdist, without git."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import version

Git = Callable[..., str]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "lab").mkdir(parents=True)
    write(root, "0.9.0")
    return root


@pytest.fixture
def git(tree: Path) -> Git:
    """git in the tree; without words of an outer repository, and with one commit."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    names = {f"GIT_{who}_{what}": "a@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}

    def run(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=tree, env=own | names, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    run("init", "--quiet")
    commit(run)
    return run


def write(root: Path, number: str, more: str = "") -> None:
    (root / version.NUMBER).write_text(f'"""boardlab."""\n\n__version__ = "{number}"\n{more}', encoding="utf-8")


def commit(git: Git) -> str:
    git("add", "--all")
    git("commit", "--quiet", "--allow-empty", "--message", "change")
    return git("rev-parse", "--short", "HEAD")


def test_the_commit_that_sets_the_number_is_the_release(tree: Path, git: Git) -> None:
    commit(git)
    write(tree, "1.0.0")
    commit(git)
    assert version.version(tree) == "1.0.0"


def test_a_later_commit_says_how_many_and_which(tree: Path, git: Git) -> None:
    write(tree, "1.0.0")
    commit(git)
    write(tree, "1.0.0", more="CONSTANT = 1\n")
    commit(git)
    short = commit(git)
    assert version.version(tree) == f"1.0.0+2.g{short}"


def test_a_shallow_clone_does_not_count(tree: Path, git: Git, tmp_path: Path) -> None:
    short = commit(git)
    git("clone", "--quiet", "--depth", "1", tree.as_uri(), str(tmp_path / "shallow"))
    assert version.version(tmp_path / "shallow") == f"0.9.0+g{short}"


def test_without_git_it_is_the_number_and_an_sdist_keeps_its_own(tree: Path) -> None:
    assert version.version(tree) == "0.9.0"
    (tree / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: boardlab\nVersion: 0.9.0+3.g1a2b3c4\n")
    assert version.version(tree) == "0.9.0+3.g1a2b3c4"


def test_the_tree_itself_has_a_number() -> None:
    assert version.version().split("+")[0].count(".") == 2
