"""What a lab host installs as farm.yaml says: Prometheus' rules and Grafana's dashboards, with its address of the documents, and Prometheus' targets."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lab import shipped
from lab.errors import LabStableError
from lab.farm import scraped
from lab.farm.config import DOCUMENTS, Farm

_FOLDERS: Final = ("prometheus/rules", "grafana/dashboards")


def files(farm: Farm) -> dict[str, str]:
    """Name below the folder `farm` -> text."""
    source = shipped.folder(shipped.FARM)
    paths = [path for folder in _FOLDERS for path in sorted((source / folder).iterdir())]
    linked = {
        path.relative_to(source).as_posix(): path.read_text(encoding="utf-8").replace(DOCUMENTS, farm.documents)
        for path in paths
    }
    return {**linked, scraped.FILE: scraped.text(farm)}


def write(found: dict[str, str], folder: Path) -> list[Path]:
    """Write the files below a folder, which is made where it is missing, and return their paths.

    Raises:
        LabStableError: the folder cannot be written.
    """
    paths = []
    for name, text in found.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise LabStableError(
                f"cannot write {path}: {error.strerror}; choose another folder with --output"
            ) from error
        paths.append(path)
    return paths
