"""Files of a release from other hosts: only from those that a person allowed, kept packed under their digest."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Final
from urllib.parse import urljoin, urlsplit

import requests
from attrs import frozen

from lab.errors import ConfigurationError
from lab.provision.failures import ImageDamagedError, ImageUnreachableError
from lab.provision.release import File
from lab.redaction import redacted, scrubbed

HOSTS_VARIABLE: Final = "LAB_RELEASE_HOSTS"
# Where TI's SDKs are: the download page leads to the first.
DOWNLOADS: Final = ("dr-download.ti.com", "software-dl.ti.com")
_REDIRECTS: Final = 5
_REDIRECT_CODES: Final = (301, 302, 303, 307, 308)
_TIMEOUT_S: Final = (10.0, 60.0)  # to connect; without a byte
_CHUNK_BYTES: Final = 1024 * 1024


@frozen
class Hosts:
    """Where files may be fetched from, and where they are kept. A name may have a port, e.g. "builds.lan:8080"."""

    allowed: frozenset[str]
    cache: Path

    @classmethod
    def of_user(cls) -> Hosts:
        """TI's downloads and those of $LAB_RELEASE_HOSTS (with commas between them); the user's cache."""
        more = os.environ.get(HOSTS_VARIABLE, "").split(",")
        return cls(frozenset({*DOWNLOADS, *(name.strip().lower() for name in more if name.strip())}), cache_folder())

    def check(self, url: str) -> None:
        """Whether a URL may be asked for.

        Raises:
            ConfigurationError: its host is not allowed, or it is no URL.
        """
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").lower(), parts.port
        except ValueError as error:
            raise ConfigurationError(f"{redacted(url)}: not a URL; mend the release file") from error
        if parts.scheme not in {"http", "https"} or not {host, f"{host}:{port}"} & self.allowed:
            raise ConfigurationError(
                f"{redacted(url)}: the host {host or '(none)'} is not one that releases may come from "
                f"({', '.join(sorted(self.allowed))}). If it may be trusted, add it to ${HOSTS_VARIABLE}"
            )


def cache_folder() -> Path:
    """Where fetched files are kept: $XDG_CACHE_HOME/boardlab/releases, or under ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "boardlab" / "releases"


def fetched(file: File, hosts: Hosts) -> Path:
    """The file of a URL, as it is packed, in the cache: fetched unless it is there.

    Raises:
        ConfigurationError: its host is not allowed.
        ImageUnreachableError: no answer, or not all of it.
        ImageDamagedError: it has another digest than the release file says; it is not kept.
    """
    hosts.check(file.source)
    kept = hosts.cache / file.sha256
    if kept.is_file():
        return kept
    hosts.cache.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.NamedTemporaryFile(dir=hosts.cache, prefix=".part-") as part:
            digest = hashlib.sha256()
            with _answer(file.source, hosts) as answer:
                for chunk in answer.iter_content(_CHUNK_BYTES):
                    digest.update(chunk)
                    part.write(chunk)
            part.flush()
            os.fsync(part.fileno())  # or a power loss keeps a file that is empty
            if digest.hexdigest() != file.sha256:
                raise ImageDamagedError(
                    f"{file.shown}: what was fetched has the SHA-256 {digest.hexdigest()}, the release file says {file.sha256}. "
                    "The file there was replaced: correct the release file if the new one is meant"
                )
            kept.unlink(missing_ok=True)
            os.link(part.name, kept)
    except requests.RequestException as error:
        raise ImageUnreachableError(
            f"{file.shown}: cannot be fetched ({scrubbed(str(error), file.source)[:200]}). Look at the network and the proxy, or "
            "put the file on the lab host and its path into the release file"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"{hosts.cache}: cannot be written: {error.strerror}; make room there") from error
    return kept


def _answer(url: str, hosts: Hosts) -> requests.Response:
    """The answer at the end of the redirects, each to a host that is allowed."""
    for _ in range(_REDIRECTS):
        answer = requests.get(
            url, stream=True, timeout=_TIMEOUT_S, allow_redirects=False, headers={"Accept-Encoding": "identity"}
        )
        if answer.status_code not in _REDIRECT_CODES:
            answer.raise_for_status()
            return answer
        url = urljoin(url, answer.headers.get("Location", ""))
        answer.close()
        hosts.check(url)
    raise requests.TooManyRedirects(f"more than {_REDIRECTS} redirects")
