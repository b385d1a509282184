"""The disks that results and recordings are kept on."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen
from prometheus_client import Metric

from exporters.farm.build import gauge
from lab.errors import LabTransientError


@frozen
class Disks:
    """The file systems of some folders.

    Attributes:
        folders: what is kept there -> where.
    """

    folders: Mapping[str, Path]

    def read(self) -> list[Metric]:
        """How full they are.

        Raises:
            LabTransientError: a folder is not there.
        """
        rows = []
        for what, folder in self.folders.items():
            try:
                rows.append((what, shutil.disk_usage(folder)))
            except OSError as error:
                raise LabTransientError(f"{folder} ({what}): {error.strerror}; is its disk mounted?") from error
        return [
            gauge(
                "boardlab_disk_size_bytes", "Size of the file system.", ["what"], [((w,), u.total) for w, u in rows]
            ),
            gauge("boardlab_disk_free_bytes", "Free for this user.", ["what"], [((w,), u.free) for w, u in rows]),
        ]
