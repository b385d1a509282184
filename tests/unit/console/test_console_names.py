"""What `lab.console` names is there, though each name is imported only when it is asked for."""

from __future__ import annotations

import pytest

from lab import console


@pytest.mark.parametrize("name", console.__all__)
def test_every_public_name_of_the_console_is_there(name: str) -> None:
    assert getattr(console, name) is not None
