"""Artifacts that several hosts share: a folder, or a store that speaks S3's protocol, behind one interface, that of obstore.

Who may write there is said by the environment as AWS's own programs have it: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a web
identity, a container's or a machine's role; never by the address.
"""

from __future__ import annotations

import datetime as dt
import functools
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field, frozen

from lab.errors import ConfigurationError, LabStableError
from lab.redaction import redacted

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SHARED_VARIABLE: Final = "LAB_SHARED_ARTIFACTS"
FORMS: Final = "s3://BUCKET/PREFIX or file:///PATH"
_PLAIN: Final = "AWS_ALLOW_HTTP"  # a server without TLS, e.g. on loopback
_CONNECT: Final = dt.timedelta(seconds=10)
_ANSWER: Final = dt.timedelta(seconds=60)
_PATIENCE: Final = dt.timedelta(seconds=30)  # with tries again
_TRIES: Final = 3
_READ: Final = dt.timedelta(seconds=10)  # a person waits for it
_SLOW_S: Final = 5.0  # who needs longer to fail does not answer; a refusal comes at once
_AGAIN_S: Final = 30.0  # so long it is not asked again then: a run has many artifacts


@define
class _Away:
    """A place that did not answer. until: by the clock of `Shared`, it is not asked again."""

    until: float = 0.0
    error: Exception = field(factory=Exception)


@frozen
class Shared:
    """Contents by their SHA-256, in the same layout as `lab.results.artifacts` has on a disk.

    Attributes:
        url: one of FORMS.
    """

    url: str
    _store: ObjectStore = field(repr=False)
    _reader: ObjectStore = field(repr=False)  # the same, with less patience
    _clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    _away: _Away = field(factory=_Away, init=False, repr=False, eq=False)

    def get(self, sha256: str) -> bytes | None:
        """The contents, as they lie there; None: they do not.

        Raises:
            LabStableError: it does not answer, or did not half a minute ago, or refuses.
        """
        import obstore  # noqa: PLC0415 - an extra; only needed where artifacts are shared
        from obstore.exceptions import BaseError  # noqa: PLC0415

        began = self._clock()
        if began < self._away.until:
            raise self._failed("read", sha256, self._away.error)
        try:
            return bytes(obstore.get(self._reader, _key(sha256)).bytes())
        except FileNotFoundError:
            return None
        except (BaseError, OSError) as error:
            if self._clock() - began >= _SLOW_S:
                self._away.until, self._away.error = self._clock() + _AGAIN_S, error
            raise self._failed("read", sha256, error) from None

    def put(self, sha256: str, data: bytes) -> None:
        """Keep contents there; they have their name when they are whole.

        Raises:
            LabStableError: it does not answer, or refuses.
        """
        import obstore  # noqa: PLC0415
        from obstore.exceptions import BaseError  # noqa: PLC0415

        try:
            obstore.put(self._store, _key(sha256), data)
        except (BaseError, OSError) as error:
            raise self._failed("written", sha256, error) from None

    def names(self) -> set[str]:
        """The SHA-256 of all that lies there.

        Raises:
            LabStableError: it does not answer, or refuses.
        """
        import obstore  # noqa: PLC0415
        from obstore.exceptions import BaseError  # noqa: PLC0415

        try:
            return {entry["path"].replace("/", "") for part in obstore.list(self._store) for entry in part}
        except (BaseError, OSError) as error:
            raise self._failed("listed", "all", error) from None

    def _failed(self, done: str, what: str, error: Exception) -> LabStableError:
        return LabStableError(
            f"artifact {what} cannot be {done} in {self.url}: {str(error).partition(chr(10))[0]}. Look at ${SHARED_VARIABLE}, at what the "
            "environment says of it (AWS_ENDPOINT_URL, AWS_REGION, credentials), and at the network",
            failure="artifacts",
        )


@functools.lru_cache(maxsize=8)
def at(url: str) -> Shared:
    """The shared artifacts at an address; nothing is asked yet.

    Raises:
        ConfigurationError: no such address, or the library is not installed.
    """
    check(url)
    try:
        from obstore.exceptions import BaseError  # noqa: PLC0415
        from obstore.store import from_url  # noqa: PLC0415
    except ImportError:
        raise ConfigurationError(
            f"${SHARED_VARIABLE} needs obstore, which is not installed: pip install 'boardlab[s3]'"
        ) from None
    tries: Any = {"max_retries": _TRIES, "retry_timeout": _PATIENCE}
    try:
        if url.startswith("file:"):
            store = from_url(url)
            return Shared(url, store, store)
        client: Any = {"connect_timeout": _CONNECT, "timeout": _ANSWER}
        if os.environ.get(_PLAIN, "").lower() in {
            "1",
            "true",
        }:  # options that are given hide the library's own look at it
            client["allow_http"] = True
        reader: Any = {
            "client_options": {**client, "read_timeout": _READ},
            "retry_config": {**tries, "retry_timeout": _READ},
        }
        return Shared(url, from_url(url, client_options=client, retry_config=tries), from_url(url, **reader))
    except (BaseError, ValueError, OSError) as error:
        why = str(error).partition("\n")[0]
        raise ConfigurationError(f"${SHARED_VARIABLE}: {url}: {why}; expected {FORMS}, which is there") from None


def check(url: str) -> None:
    """That an address is one, and has no password, which everybody could read.

    Raises:
        ConfigurationError: it is not.
    """
    if redacted(url) != url or not url.startswith(("s3://", "file:///")):
        raise ConfigurationError(
            f"${SHARED_VARIABLE}: {redacted(url)!r}: expected {FORMS}, without a password: that is in the environment (AWS_ACCESS_KEY_ID, "
            "AWS_SECRET_ACCESS_KEY) or in the machine's role"
        )


def _key(sha256: str) -> str:
    return f"{sha256[:2]}/{sha256[2:]}"
