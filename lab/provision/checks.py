"""Checks of a release beyond its form: files, boards, media, sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from lab import boards
from lab.errors import BoardlabError, ConfigurationError
from lab.provision import image
from lab.provision.image import Hosts
from lab.provision.release import FLASHES, Release
from lab.provision.writer import inside, inside_reason, rooms

# In a file's name, e.g. tiboot3-am62x-hs-fs-evm.bin
_STATE: Final = re.compile(r"(?<![a-z])(gp|hs-?fs|hs-?se|hs)(?![a-z])")
_FIRST_STAGE: Final = "tiboot3"


def problems(release: Release, hosts: Hosts, *, files: bool = True) -> Iterator[str]:
    """Yield the problems of a release, one sentence each, with a remedy.

    Args:
        files: also read every file: digest, unpacking, block map, size. URLs are fetched.
    """
    yield from _boards(release)
    yield from _states(release)
    if not files:
        return
    sizes: dict[int, int] = {}
    for file in release.files:
        try:
            inspection = image.inspect(file, hosts)
            image.check_content(file, inspection.mapped_bytes)
            sizes[id(file)] = inspection.bytes
        except BoardlabError as error:
            yield str(error)
    for medium, content in release.media.items():
        if medium in FLASHES and content.image is not None:
            yield from (
                f"media.{medium}: {inside_reason(part)}" for part in inside(content, sizes.get(id(content.image), 0))
            )
        free_bytes = rooms(content)
        for part in content.parts:
            size, room = sizes.get(id(part)), free_bytes[part.name]
            if size is not None and room is not None and size > room:
                yield (
                    f"media.{medium}: {part.name} has {size} bytes and only {room} "
                    f"{part.to.label}: move the next part, or make it smaller"
                )


def _boards(release: Release) -> Iterator[str]:
    for name in release.boards:
        try:
            board = boards.load(name)
        except ConfigurationError as error:
            yield f"boards: {error}"
            continue
        for medium in release.media:
            if medium not in board.media:
                yield (
                    f"media.{medium}: {name} has {', '.join(board.media)}; a release of "
                    "several board types has what all of them have"
                )


def _states(release: Release) -> Iterator[str]:
    """Check the first stages' security state.

    A device's ROM refuses the stage of another state, without a word on the console.
    """
    for file in release.files:
        name = file.filename.lower()
        match = _STATE.search(name) if name.startswith(_FIRST_STAGE) else None
        if match is None or release.security == "none":
            continue
        state = match[1].replace("hsfs", "hs-fs").replace("hsse", "hs-se")
        if state != release.security and not (state == "hs" and release.security == "hs-se"):
            yield (
                f"{file.filename}: it is for {state} devices, and the release "
                f"for {release.security}: take the other one"
            )
