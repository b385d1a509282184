"""QMP when QEMU dies in the middle of a conversation."""

from __future__ import annotations

import asyncio
import socket

import pytest

from lab.errors import LabTransientError
from lab.virtual.qemu.machine import Qmp

DEADLINE_S = 10


async def killed() -> Qmp:
    """A connection to a QEMU that died before it had read what we said: the kernel resets it."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    writer.write(b"unread")
    await writer.drain()
    theirs.close()
    return Qmp(reader, writer)


def test_following_a_killed_qemu_ends_as_with_one_that_ended() -> None:
    async def body() -> None:
        qmp = await killed()
        await asyncio.wait_for(qmp.follow(), DEADLINE_S)
        qmp.close()

    asyncio.run(body())


def test_a_command_to_a_killed_qemu_is_refused_with_its_reason() -> None:
    async def body() -> None:
        qmp = await killed()
        with pytest.raises(LabTransientError, match=r"QEMU ended before"):
            await asyncio.wait_for(qmp.execute("cont"), DEADLINE_S)
        qmp.close()

    asyncio.run(body())
