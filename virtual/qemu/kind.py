"""The kind of board `qemu-virt`: its images, its files, its backend."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from lab.errors import LabStableError
from lab.host.clock import Clock
from virtual import environment
from virtual.board import Backend, BoardAccess, BoardFolder
from virtual.images import cache, tools
from virtual.qemu import cable, recipe
from virtual.qemu.machine import QEMU, QemuVirt
from virtual.uart import UartAdapter


class QemuVirtKind:
    """A `virtual.board.BoardKind`: real U-Boot, real kernel, three media.

    Args:
        with_tools: its images hold benchmark programs too.
    """

    def __init__(self, image_root: Path, *, with_tools: bool = False) -> None:
        self._image_root = image_root
        self._with_tools = with_tools

    def prepare(self, folder: BoardFolder, *, fresh: bool, report: Callable[[str], None]) -> None:
        """See `BoardKind`; a board writes on copies of the images, which stay until `fresh` or until these change."""
        tools.require([QEMU, *(tools.PACKAGES_OF_BENCHMARKS if self._with_tools else ())])
        if self._with_tools and (problem := cable.problem()):
            report(f"{folder.name} gets no network, and what needs a tester is skipped: {problem}")
        images = recipe.obtain(self._image_root, report, with_tools=self._with_tools)
        media = folder.media
        origin = media / recipe.ORIGIN
        if not fresh and origin.exists() and origin.read_text() == images.name:
            return
        report(f"Copying the media of {folder.name}")
        try:
            shutil.rmtree(media, ignore_errors=True)
            media.mkdir(parents=True)
            for image in sorted(images.iterdir()):
                tools.run(["cp", "--reflink=auto", "--sparse=always", image, media / image.name])
            origin.write_text(images.name)
        except (OSError, LabStableError) as error:
            shutil.rmtree(media, ignore_errors=True)
            raise LabStableError(
                f"cannot copy the media to {media}: {error}; free space there, or choose another folder with --dir",
                failure="disk",
            ) from error

    def backend(self, folder: BoardFolder, adapters: Mapping[str, UartAdapter], clock: Clock) -> Backend:
        """See `BoardKind`."""
        return QemuVirt(folder, folder.media / recipe.FIRMWARE, adapters, clock)

    def environment(self, place: BoardAccess) -> str:
        """See `BoardKind`."""
        return environment.of_board(place, with_tools=recipe.has_tools(place.folder.media))


def default(*, with_tools: bool = False) -> QemuVirtKind:
    """With the user's image cache."""
    return QemuVirtKind(cache.default_root(), with_tools=with_tools)
