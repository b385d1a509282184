"""What the jobs said that were queued here: `lab run` writes it beside the console server, also when the site has ended meanwhile."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

from attrs import frozen
from fastapi import APIRouter
from fastapi import Path as Asked
from fastapi.responses import PlainTextResponse, Response

from lab.console.terminal import LiveText
from lab.errors import ConfigurationError
from lab.host.clock import utc_now
from lab.host.runtime import runtime_dir
from lab.jobs import listing
from lab.jobs.records import JobState
from lab.results.location import locate
from lab.results.store import Store
from lab.web.site import Site

PREFIX: Final = "web-run-"
_KEPT: Final = 50  # the runtime folder is memory
_KEPT_S: Final = 14 * 86_400.0  # a job waits for seven days at most, and says nothing meanwhile
_SHOWN: Final = 256 * 1024  # bytes of a log, its end
_JOBS: Final = 200  # the latest ones, of which a board's are looked for


@frozen
class JobLog:
    """A job of a board that was queued here, and what became of it."""

    job: str
    state: JobState


def keep(site: Site, log: Path, job: str) -> None:
    """Call a log by its job, so that it is found again by whoever serves the site then; the oldest ones go."""
    with suppress(OSError):
        log.rename(log.with_name(f"{_of_store(site)}{job}.log"))
    tidy(log.parent)


def tidy(folder: Path) -> None:
    """Remove the oldest logs, and those of orders that never became a job of a site that is gone."""
    with suppress(OSError):
        found = sorted(folder.glob(f"{PREFIX}*.log"), key=os.path.getmtime, reverse=True)
        for number, log in enumerate(found):
            if number >= _KEPT or time.time() - log.stat().st_mtime > _KEPT_S:
                log.unlink(missing_ok=True)


def of_board(site: Site, store: Store, board: str) -> list[JobLog]:
    """The jobs of a board that were queued here and whose logs are there, the newest first."""
    folder = site.runtime or runtime_dir()
    begin = f"{_of_store(site)}j"
    there = {int(number) for each in folder.glob(f"{begin}*.log") if (number := each.stem[len(begin) :]).isdecimal()}
    if not there:
        return []
    jobs = (view.job for view in listing.jobs(store, _JOBS, utc_now()))
    return [JobLog(job.called, job.state) for job in jobs if job.board == board and job.id in there]


def _of_store(site: Site) -> str:
    """How the names of the logs of this site's results begin: sites with other results share the folder, and count jobs from 1, too."""
    return f"{PREFIX}{locate(site.database()).tag}-"


def router(site: Site) -> APIRouter:
    """The logs' address."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/jobs/{job}/log")
    def log(job: Annotated[str, Asked(pattern=r"^j[1-9][0-9]{0,17}$")]) -> Response:
        """The end of what `lab run` said, as plain text: a browser makes nothing else of it."""
        try:
            with ((site.runtime or runtime_dir()) / f"{_of_store(site)}{job}.log").open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _SHOWN))
                return PlainTextResponse(LiveText().feed(file.read()))
        except FileNotFoundError as error:
            raise ConfigurationError(
                f"no log of {job}: it was not queued here, or is long over; `lab jobs` and the page of its board say how it ended"
            ) from error

    return routes
