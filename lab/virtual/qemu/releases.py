"""Release files of a QEMU board, with its expected identity."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from lab.virtual.images import cache
from lab.virtual.qemu import ramlinux, recipe

OTHER: Final = "other"
FIRST: Final = "first"
_KERNELS: Final = {FIRST: recipe.KERNEL_META, OTHER: recipe.OTHER_KERNEL_META}
_IMAGE: Final = re.compile(r"linux-image-(\d.*)")


def write(folder: Path, name: str, root: Path, report: cache.Report, *, kernel: str = FIRST) -> Path:
    """Write a release and its files into `folder`; returns NAME.yaml.

    Args:
        root: the image cache. kernel: FIRST or OTHER: Debian's usual kernel, or its cloud kernel of the same version.

    Raises:
        LabError, ConfigurationError: as of `lab.virtual.qemu.recipe.obtain`.
    """
    images = recipe.obtain(root, report, with_network=True, kernel_meta=_KERNELS[kernel])
    files = folder / name
    files.mkdir(parents=True)
    with (images / "sd.img").open("rb") as image, gzip.open(files / "sd.img.gz", "wb", compresslevel=1) as packed:
        shutil.copyfileobj(image, packed)
    shutil.copyfile(images / "emmc.img", files / "emmc.img")
    ram = ramlinux.obtain(root, report)
    stages = [_copied(ram / name, files) for name in (ramlinux.KERNEL, ramlinux.INITRAMFS)]
    flash = (images / f"{recipe.FLASH}.img").read_bytes()
    facts = json.loads((images / cache.MANIFEST).read_text())
    parts = [_part(files, name, flash, *where) for name, where in facts["flash"].items()]
    media: dict[str, Any] = {
        medium: {
            "image": {
                "source": f"{name}/{file}",
                "sha256": _sha256(files / file),
                "size": (images / f"{medium}.img").stat().st_size,
            }
        }
        for medium, file in (("sd", "sd.img.gz"), ("emmc", "emmc.img"))
    }
    text = json.dumps(
        {
            "boards": ["qemu-virt"],
            "media": {**media, recipe.FLASH: {"parts": parts}},
            "recovery": {"ram": stages},
            "identity": {"kernel": rf"\b{re.escape(_version(facts['packages']))}\b"},
        },
        indent=2,
    )
    path = folder / f"{name}.yaml"
    path.write_text(text + "\n", encoding="utf-8")  # JSON is YAML
    return path


def _part(files: Path, name: str, flash: bytes, offset: int, count: int) -> dict[str, Any]:
    (files / name).write_bytes(flash[offset : offset + count])
    return {"name": name, "source": f"{files.name}/{name}", "sha256": _sha256(files / name), "to": {"offset": offset}}


def _copied(path: Path, files: Path) -> dict[str, Any]:
    shutil.copyfile(path, files / path.name)
    return {"name": path.name, "source": f"{files.name}/{path.name}", "sha256": _sha256(path)}


def _version(packages: Iterable[str]) -> str:
    found = [match[1] for name in packages if (match := _IMAGE.fullmatch(name))]
    return found[0]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
