"""`lab provision` refuses options that do not go together, before it opens anything."""

from __future__ import annotations

import pytest

from lab.cli import main


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("--release", "r.yaml", "--medium", ""),
            "--medium '': a name is empty; all media are written only without --medium",
        ),
        (("--release", "r.yaml", "--medium", "sd,,emmc"), "--medium 'sd,,emmc': a name is empty"),
        (("--release", "r.yaml", "--dry-run", "--verify-only"), "give one of them"),
        (("--dry-run",), "which release?"),
        (("--verify-only",), "which release?"),
        (("--from-nothing", "uart"), "which release?"),
        (("--forget", "--release", "r.yaml"), "--forget writes nothing"),
        (("--forget", "--from-nothing", "uart", "--release", "r.yaml"), "--forget writes nothing"),
    ],
)
def test_options_that_would_do_something_else_are_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    assert main(["provision", "--env", "/there-is/none.yaml", *words]) == 2
    assert says in capsys.readouterr().err
