"""After a job: what it measured is brought to where artifacts are shared, by a process that nobody waits for."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from typing import Final

from lab.results.location import ARTIFACTS_VARIABLE, DATABASE_VARIABLE
from lab.results.store import Store

LOG: Final = "upload.log"  # in the folder of marks: what the last one said
_UPLOAD: Final = ("-P", "-c", "import sys; from lab.cli import main; sys.exit(main())", "results", "upload")
_log = logging.getLogger(__name__)


def begin(store: Store) -> subprocess.Popen[bytes] | None:
    """Have everything brought that is marked, behind all other work of this host; None: there is nothing.

    It never fails: what is not brought now stays marked, and is brought after the next job or by `lab results upload`.
    """
    artifacts = store.artifacts
    if not artifacts.shared or not artifacts.marked():
        return None
    database = store.location.url.render_as_string(hide_password=False)
    own = {DATABASE_VARIABLE: database, ARTIFACTS_VARIABLE: str(artifacts.root)}
    try:
        with (artifacts.marks / LOG).open("wb") as log:
            return subprocess.Popen(
                ["nice", "-n", "19", sys.executable, *_UPLOAD],
                env={**os.environ, **own},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
    except OSError as error:
        _log.warning("artifacts are not brought to %s now: %s; later: lab results upload", artifacts.shared, error)
        return None
