"""Ports of labgrid at the console server."""

from __future__ import annotations

import attr
import pytest
from labgrid import Target
from labgrid.resource import SerialPort
from labgrid.resource.common import ManagedResource, ResourceManager

from lab.drivers import consoleport
from lab.drivers.consoleport import check_plugged
from lab.errors import BoardlabError


@attr.s(eq=False)
class Adapter(ManagedResource, SerialPort):  # type: ignore[misc]  # labgrid has no types
    """An adapter that labgrid finds again at a later look."""

    manager_cls = ResourceManager
    looks = 0

    def poll(self) -> None:
        self.looks += 1
        if self.looks == 3:
            self.port = "/dev/ttyUSB1"


@pytest.fixture
def adapter() -> Adapter:
    return Adapter(Target("main"), None, None)  # type: ignore[call-arg]


def test_an_adapter_that_went_away_is_waited_for(adapter: Adapter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consoleport, "_LOOK_S", 0.0)
    check_plugged(adapter, "/dev/ttyUSB0")
    assert adapter.port == "/dev/ttyUSB1"


@pytest.mark.parametrize(
    ("before", "failure", "fault"),
    [("/dev/ttyUSB0", "adapter_lost", "lab"), ("", "configuration", "configuration")],
)
def test_only_an_adapter_that_was_never_there_is_the_environment_s_mistake(
    adapter: Adapter, monkeypatch: pytest.MonkeyPatch, before: str, failure: str, fault: str
) -> None:
    monkeypatch.setattr(consoleport, "RETURN_S", 0.0)
    with pytest.raises(BoardlabError) as raised:
        check_plugged(adapter, before)
    assert (raised.value.failure, raised.value.fault) == (failure, fault)
    assert before in str(raised.value)
