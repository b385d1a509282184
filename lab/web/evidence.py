"""The files of attempts (logs, stamps, traces), by digest, never by path."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import Response

from lab.errors import ConfigurationError
from lab.results import formatting
from lab.results.listing import overview
from lab.results.models import ArtifactRow
from lab.results.records import LAST_ID
from lab.shown import json_text
from lab.web.site import Site

Digest = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]
RunId = Annotated[int, Path(ge=1, le=LAST_ID)]


def router(site: Site) -> APIRouter:
    """The files' addresses."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/artifacts/{sha256}")
    def artifact(sha256: Digest) -> Response:
        """A file of an attempt, with its bytes verified."""
        with site.store() as store:
            with store._read() as session:
                known = session.get(ArtifactRow, sha256) is not None
            if not known:
                raise ConfigurationError(f"no attempt has a file {sha256}; the page of a run names its files")
            return _file(store.artifacts.read(sha256), sha256, "application/octet-stream")

    @routes.get("/runs/{run_id}/samples.csv")
    def samples(run_id: RunId) -> Response:
        """One line a sample."""
        with site.store() as store:
            return _file(formatting.export_csv([overview(store, run_id)]).encode(), f"run-{run_id}.csv", "text/csv")

    @routes.get("/runs/{run_id}/run.json")
    def whole(run_id: RunId) -> Response:
        """A run with every attempt."""
        with site.store() as store:
            text = json_text(formatting.export_document([overview(store, run_id)]))
            return _file(text.encode(), f"run-{run_id}.json", "application/json")

    return routes


def _file(data: bytes, name: str, kind: str) -> Response:
    """A download: a browser shows nothing of it, whatever a board printed."""
    return Response(data, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})
