"""A piece for many viewers: handed to some at a time, in order, and no viewer holds up another."""

from __future__ import annotations

import asyncio

from lab.web.consoles import Broadcaster, ConsolePiece, Viewer

LIMIT_S = 60
MANY = 200


def pieces(count: int) -> list[ConsolePiece]:
    return [ConsolePiece(b"%d" % number) for number in range(count)]


async def given(viewer: Viewer, count: int) -> list[bytes]:
    """What a viewer is given, so many pieces."""
    async with asyncio.timeout(LIMIT_S):
        return [(await viewer.queue.get())[0].events for _ in range(count)]


def test_each_viewer_has_all_pieces_in_their_order_also_when_others_leave_meanwhile() -> None:
    async def look() -> list[list[bytes]]:
        broadcaster, loop = Broadcaster(), asyncio.get_running_loop()
        viewers = [Viewer(loop) for _ in range(MANY)]
        for number, piece in enumerate(pieces(5)):
            broadcaster.send(viewers[20 * number :], piece)  # the first ones leave
        return [await given(viewer, 5) for viewer in viewers[80:]]

    assert asyncio.run(look()) == [[b"0", b"1", b"2", b"3", b"4"]] * (MANY - 80)


def test_the_loop_does_other_things_while_many_are_given_a_piece() -> None:
    async def look() -> tuple[int, int]:
        broadcaster, loop = Broadcaster(), asyncio.get_running_loop()
        viewers = [Viewer(loop) for _ in range(MANY)]
        broadcaster.send(viewers, ConsolePiece(b"x"))
        await given(viewers[0], 1)
        first = sum(not viewer.queue.empty() for viewer in viewers)
        for viewer in viewers[1:]:
            await given(viewer, 1)
        return first, sum(not viewer.queue.empty() for viewer in viewers)

    first, left = asyncio.run(look())
    assert first < MANY // 4, "most viewers wait when the first one goes on"
    assert left == 0


def test_more_are_given_at_once_where_more_wait_so_that_those_of_a_slow_host_grow_no_further() -> None:
    async def look() -> list[int]:
        broadcaster, loop = Broadcaster(), asyncio.get_running_loop()
        viewer, many = Viewer(loop, asyncio.Queue()), [Viewer(loop, asyncio.Queue()) for _ in range(MANY)]
        for piece in pieces(300):
            broadcaster.send([viewer, *many], piece)
        turns = []
        for _ in range(300):
            await given(viewer, 1)
            turns.append(viewer.queue.qsize())
        return turns

    assert max(asyncio.run(look())) > 1, "several pieces in one turn of the loop"


def test_a_slow_viewer_loses_pieces_and_holds_nobody_up() -> None:
    async def look() -> tuple[list[bytes], tuple[ConsolePiece, int], int]:
        broadcaster, loop = Broadcaster(), asyncio.get_running_loop()
        slow, quick = Viewer(loop, asyncio.Queue(1)), Viewer(loop)
        for piece in pieces(3):
            broadcaster.send([slow, quick], piece)
        came = await given(quick, 3)
        first = slow.queue.get_nowait()
        broadcaster.send([slow], ConsolePiece(b"last"))
        async with asyncio.timeout(LIMIT_S):
            last, lost = await slow.queue.get()
        assert last.events == b"last"
        return came, first, lost

    came, first, lost = asyncio.run(look())
    assert came == [b"0", b"1", b"2"]
    assert first == (ConsolePiece(b"0"), 0)
    assert lost == 2


def test_viewers_of_a_loop_that_has_ended_are_forgotten() -> None:
    async def viewer() -> Viewer:
        return Viewer(asyncio.get_running_loop())

    gone = asyncio.run(viewer())

    async def look() -> list[bytes]:
        here = Viewer(asyncio.get_running_loop())
        Broadcaster().send([gone, here], ConsolePiece(b"x"))
        return await given(here, 1)

    assert asyncio.run(look()) == [b"x"]
    assert gone.queue.empty()


def test_a_beat_wakes_only_a_viewer_for_whom_nothing_waits() -> None:
    async def look() -> list[bytes]:
        viewer = Viewer(asyncio.get_running_loop())
        viewer.enqueue(ConsolePiece(b"x"))
        with viewer.heartbeat(3600):
            assert viewer.due
            found = await given(viewer, 1)
            assert viewer.queue.empty()
        viewer.due = False
        with viewer.heartbeat(3600):
            found += await given(viewer, 1)
            assert viewer.due
        return found

    assert asyncio.run(look()) == [b"x", b""]
