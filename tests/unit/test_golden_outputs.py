"""Golden outputs: a comparison finds each difference, and the normalisers replace what they name and nothing else."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import golden_outputs
import pytest


def taken(folder: Path, **texts: str) -> Path:
    """A folder with these outputs."""
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_equal_outputs_have_no_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = (taken(tmp_path / name, scrape="a 1\nb 2\n") for name in ("old", "new"))
    assert golden_outputs.main(["compare", str(old), str(new)]) == 0
    assert capsys.readouterr().out == ""


def test_a_changed_line_and_a_missing_file_are_differences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = taken(tmp_path / "old", scrape="a 1\nb 2\n", page="")
    new = taken(tmp_path / "new", scrape="a 1\nb 3\n")
    assert golden_outputs.main(["compare", str(old), str(new)]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        f"only in {old}: page",
        f"--- {old}/scrape",
        f"+++ {new}/scrape",
        "@@ -1,2 +1,2 @@",
        " a 1",
        "-b 2",
        "+b 3",
    ]


def test_outputs_are_not_taken_into_a_folder_with_files(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="not empty"):
        golden_outputs.main(["take", str(taken(tmp_path / "old", scrape="a 1\n"))])


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"boardlab {version('boardlab')}.", "boardlab <version>."),
        ("http://127.0.0.1:40123/runs", "http://<address>/runs"),
        ("listen: 127.0.0.1:9870", "listen: 127.0.0.1:9870"),
        (f'name="csrf" value="{"0a" * 32}">', 'name="csrf" value="<csrf>">'),
        (f"sha256 {'0a' * 32}", f"sha256 {'0a' * 32}"),
        (
            'boardlab_collector_duration_seconds{collector="jobs"} 0.25\nboardlab_jobs{state="queued"} 1.0',
            'boardlab_collector_duration_seconds{collector="jobs"} <s>\nboardlab_jobs{state="queued"} 1.0',
        ),
        ("/golden/here/farm.yaml", "<here>/farm.yaml"),
    ],
)
def test_only_what_differs_between_two_takes_is_replaced(text: str, left: str) -> None:
    assert golden_outputs.normalised(text, {Path("/golden/here"): "<here>"}) == left
