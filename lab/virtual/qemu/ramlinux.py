"""Linux in a qemu-virt's memory.

It is the kernel of its media, with the root file system that real boards get, too.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lab.virtual.images import cache, initramfs
from lab.virtual.qemu import recipe
from lab.virtual.ramlinux import image

KERNEL: Final = "Image"
INITRAMFS: Final = image.FILE.format(recipe.ARCHITECTURE)


def obtain(root: Path, report: cache.Report) -> Path:
    """The folder with KERNEL and INITRAMFS, built when missing; raises as `lab.virtual.qemu.recipe.obtain`."""
    packages, kernel = image.programs(root, recipe.ARCHITECTURE, report), recipe.sources(root, report)
    facts = [json.loads((each / cache.MANIFEST).read_text()) for each in (packages, kernel)]

    def fill(folder: Path) -> Mapping[str, object]:
        tree = image.tree(packages, {**recipe.media_modules(kernel), **recipe.network_modules(kernel)})
        (folder / INITRAMFS).write_bytes(initramfs.build(tree))
        shutil.copyfile(kernel / "Image", folder / KERNEL)
        return {"packages": facts[0]["packages"] | facts[1]["packages"], "mirror": facts[0]["mirror"]}

    made_by = (
        "lab.virtual.images",
        "lab.virtual.ramlinux",
        __name__,
        recipe.__name__,
        "lab.virtual.qemu.busybox",
        "lab.virtual.qemu.data",
    )
    named = cache.recipe_hash(*made_by, sources=[each["files"] for each in facts])
    return cache.obtain("qemu-virt-ram", named, fill, root=root, report=report)
