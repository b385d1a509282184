"""Files of a release from other hosts: only from those that a person allowed, kept packed under their digest."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final
from urllib.parse import urljoin, urlsplit

import requests
from attrs import frozen
from urllib3.exceptions import HTTPError

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
MOST_BYTES: Final = 64 * 1024**3  # of a file, as it is fetched
MOST_S: Final = 4 * 3600.0  # for a file: 64 GiB at 5 MB/s
FREE_BYTES: Final = 1024**3  # that stay free on the disk: this host may record consoles
_PART: Final = ".part-"
_YOUNG_S: Final = 60.0  # a part of this age may not be locked yet


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
        ImageUnreachableError: no answer, not all of it, or not within `MOST_S`.
        ImageDamagedError: more than `MOST_BYTES`, or another digest than the release file says; it is not kept.
    """
    hosts.check(file.source)
    kept = hosts.cache / file.sha256
    if kept.is_file():
        return kept
    hosts.cache.mkdir(parents=True, exist_ok=True)
    try:
        with _part(hosts.cache) as part:
            digest = hashlib.sha256()
            for chunk in _chunks(file, hosts):
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
    except (requests.RequestException, HTTPError) as error:
        raise ImageUnreachableError(
            f"{file.shown}: cannot be fetched ({scrubbed(str(error), file.source)[:200]}). Look at the network and the proxy, or "
            "put the file on the lab host and its path into the release file"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"{hosts.cache}: cannot be written: {error.strerror}; make room there") from error
    return kept


@contextmanager
def _part(folder: Path) -> Iterator[IO[bytes]]:
    """A file for what is fetched, which is removed afterwards; those that killed programs have left are removed before."""
    for path in folder.glob(f"{_PART}*"):
        with suppress(OSError), path.open("rb") as left:  # a lock that cannot be had: somebody fetches into it
            if time.time() - os.fstat(left.fileno()).st_mtime > _YOUNG_S:
                fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
    with tempfile.NamedTemporaryFile(dir=folder, prefix=_PART) as part:
        fcntl.flock(part, fcntl.LOCK_EX)
        yield part


def _chunks(file: File, hosts: Hosts) -> Iterator[bytes]:
    """The bytes of a URL as they come, within limits."""
    deadline, count = time.monotonic() + MOST_S, 0
    with _answer(file.source, hosts) as answer:
        while chunk := answer.raw.read1(
            _CHUNK_BYTES, decode_content=True
        ):  # what has come: a slow host cannot stop the clock
            count += len(chunk)
            if count > MOST_BYTES:
                raise ImageDamagedError(
                    f"{file.shown}: more than {MOST_BYTES} bytes; it was not fetched. Is it the right file?"
                )
            if time.monotonic() > deadline:
                raise ImageUnreachableError(
                    f"{file.shown}: not fetched within {MOST_S / 3600:g} hours; {count} bytes came. Look at the network and the host, or put the "
                    "file on the lab host and its path into the release file"
                )
            if shutil.disk_usage(hosts.cache).free < FREE_BYTES:
                raise ConfigurationError(
                    f"{hosts.cache}: less than {FREE_BYTES} bytes are free after {count} bytes of {file.shown}; make room there"
                )
            yield chunk


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
