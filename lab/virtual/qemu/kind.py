"""The kinds of boards in QEMU: their images, their files, their backend."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from lab import boards
from lab.errors import ConfigurationError, LabStableError
from lab.host.clock import Clock
from lab.virtual import environment, straps
from lab.virtual.board import Backend, BoardAccess, BoardFolder
from lab.virtual.images import cache, tools, uboot
from lab.virtual.qemu import cable, debian_board, recipe
from lab.virtual.qemu import uboot as qemu_uboot
from lab.virtual.qemu.bpim2u import BananaPi
from lab.virtual.qemu.machine import QemuBoard, QemuModel
from lab.virtual.qemu.sifive_u import HiFive
from lab.virtual.qemu.virt import Virt
from lab.virtual.uart import UartAdapter

MODELS: Final[Mapping[str, Callable[..., QemuModel]]] = {
    Virt.board_type: Virt,
    BananaPi.board_type: BananaPi,
    HiFive.board_type: HiFive,
}
_log = logging.getLogger(__name__)


class QemuKind:
    """A `lab.virtual.board.BoardKind`: a QEMU machine with real software.

    Args:
        with_tools: its images hold benchmark programs too.
    """

    def __init__(self, model: QemuModel, image_root: Path, *, with_tools: bool = False) -> None:
        self._model = model
        self._image_root = image_root
        self._with_tools = with_tools

    def images(self, report: Callable[[str], None]) -> Path:
        """Obtain QEMU and the folder of media; raises as `prepare`."""
        self._model.program.obtain(self._image_root, report)
        return self._model.images(self._image_root, report)

    def prepare(self, folder: BoardFolder, *, fresh: bool, report: Callable[[str], None]) -> None:
        """Copy the images into the board's folder.

        The copies stay until `fresh` or until the images change.
        """
        if self._with_tools and (problem := cable.problem()):
            report(f"{folder.name} gets no network, and what needs a tester is skipped: {problem}")
        images = self.images(report)
        bits = boards.load(self._model.board_type).boot_mode_bits
        straps.begin(folder.straps, bits, self._model.straps, fresh=fresh)
        folder.tftp.mkdir(parents=True, exist_ok=True)
        media = folder.media
        origin = media / recipe.ORIGIN
        if not fresh and origin.exists() and origin.read_text() == images.name:
            return
        report(f"Copying the media of {folder.name}")
        try:
            for old in (media, folder.sdmux):
                shutil.rmtree(old, ignore_errors=True)
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

    def uboot_tests(self, folder: Path, report: Callable[[str], None]) -> None:
        """Write U-Boot's own tests for such boards into `folder`; raises as `lab.virtual.qemu.uboot.unpack`."""
        packages = self._model.packages(self._image_root, report)
        qemu_uboot.unpack(self._model.uboot, packages, folder, self._image_root, report)

    def backend(self, folder: BoardFolder, adapters: Mapping[str, UartAdapter], clock: Clock) -> Backend:
        program = self._model.program.obtain(self._image_root, _log.info)
        return QemuBoard(folder, self._model, program, adapters, clock)

    def environment(self, place: BoardAccess) -> str:
        media, kind = place.folder.media, self._model.board_type
        writers = debian_board.text(f"{kind}.writers") if recipe.has_network(media) else ""
        site = debian_board.text(f"{kind}.site") if recipe.has_tools(media) else ""
        return environment.of_board(place, kind, site=site, writers=writers)


def of_type(board_type: str, *, with_tools: bool = False, with_network: bool = False, stock: bool = False) -> QemuKind:
    """A kind of board, with the user's image cache.

    Args:
        with_tools: its images hold benchmark programs too.
        with_network: releases can be put on it.
        stock: it has the distribution's device tree as it is.

    Raises:
        ConfigurationError: there is no such one of this board type.
    """
    if with_network and with_tools:
        raise ConfigurationError("--network and --tools make two boards: give one of them")
    model = _model(board_type, with_tools=with_tools, with_network=with_network, stock=stock)
    return QemuKind(model, cache.default_root(), with_tools=with_tools)


def _model(board_type: str, *, with_tools: bool, with_network: bool, stock: bool) -> QemuModel:
    if stock and board_type != BananaPi.board_type:
        raise ConfigurationError(f"{board_type} has no --stock; of the boards in QEMU {BananaPi.board_type} has")
    if with_tools:
        tools.require(tools.PACKAGES_OF_BENCHMARKS)
    if board_type == Virt.board_type and (with_network or with_tools):
        uboot.require()
    if board_type == BananaPi.board_type:
        return BananaPi(stock=stock, with_network=with_network, with_tools=with_tools)
    return MODELS[board_type](with_network=with_network, with_tools=with_tools)
