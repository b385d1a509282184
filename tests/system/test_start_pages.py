"""Each start page's steps, typed as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import start_pages


@pytest.mark.parametrize("name", start_pages.NAMES)
def test_a_page_has_a_picture_and_five_steps(name: str) -> None:
    page = start_pages.PAGES / f"{name}.md"
    picture = re.search(r"^!\[.+\]\((\S+)\)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert picture is not None
    assert (start_pages.PAGES / picture[1]).is_file()
    steps = start_pages.steps(name)
    assert len(steps) == 5
    assert all(steps)


@pytest.mark.soak
@pytest.mark.parametrize("name", start_pages.NAMES)
def test_the_steps_of_a_page_work_as_they_stand(name: str, tmp_path: Path) -> None:
    said = start_pages.follow(name, tmp_path)
    if name == "on-call":
        assert "hang_kernel" in said
