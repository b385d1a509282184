"""TLS between the hosts of a lab: both ends show a certificate of the lab's own authority, or nothing is said at all."""

from __future__ import annotations

import os
import ssl
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from attrs import frozen

from lab.errors import ConfigurationError

VARIABLE: Final = "BOARDLAB_TLS"
FOLDER: Final = Path("/etc/boardlab/tls")
_ALERTS: Final = {  # what the other end says of ours; OpenSSL names them as RFC 8446, section 6.2
    "alert certificate expired": "it says that ours has expired: renew it",
    "alert unknown ca": "it says that ours is not of its authority: ca.crt must be the same on both hosts",
    "alert certificate required": "it wants a certificate, and got none",
    "alert bad certificate": "it does not accept ours: for a server, the certificate must name the host as its clients do",
    "alert unsupported certificate": "it says that ours is not made for this purpose (extendedKeyUsage)",
    "alert certificate unknown": "it does not accept ours, and says no more",
    "alert protocol version": "it does not speak TLS 1.3",
}
_REASONS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it has shown no certificate",
    "UNSUPPORTED_PROTOCOL": "it does not speak TLS 1.3",
    "WRONG_VERSION_NUMBER": "it does not speak TLS",
    "HTTP_REQUEST": "it speaks HTTP without TLS",
    "HTTPS_PROXY_REQUEST": "it speaks HTTP without TLS",
    "UNEXPECTED_MESSAGE": "it does not speak TLS",
    "PACKET_LENGTH_TOO_LONG": "it does not speak TLS",
    "RECORD_LAYER_FAILURE": "it does not speak TLS",
}


@frozen
class Identity:
    """Who a program is for the other hosts of a lab.

    Attributes:
        folder: with `ca.crt`, the lab's authority; `host.crt` and `host.key`, a certificate of it with its key (all PEM).
    """

    folder: Path

    @classmethod
    def found(cls, environ: Mapping[str, str] = os.environ) -> Identity:
        """That of `$BOARDLAB_TLS`, else of /etc/boardlab/tls. Nothing is read."""
        return cls(Path(environ.get(VARIABLE) or FOLDER))

    @property
    def authority(self) -> Path:
        """Whose certificates are accepted."""
        return self.folder / "ca.crt"

    @property
    def certificate(self) -> Path:
        """What the other end gets to see."""
        return self.folder / "host.crt"

    @property
    def key(self) -> Path:
        """Of the certificate."""
        return self.folder / "host.key"

    def server(self) -> ssl.SSLContext:
        """Of a server: only clients with a certificate of the authority get in.

        Raises:
            ConfigurationError: a file is missing or wrong, others may read the key, or clients would refuse the certificate.
        """
        context = self._context(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        context.num_tickets = 0  # each connection shows its certificate, also one that was here before
        self._prove(context)
        return context

    def client(self) -> ssl.SSLContext:
        """Of a client: it accepts a server with a certificate of the authority that names the host it wants to reach.

        Raises:
            ConfigurationError: a file is missing or wrong, or others may read the key.
        """
        return self._context(ssl.PROTOCOL_TLS_CLIENT)

    def _context(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        self._check_key()
        for path in (self.authority, self.certificate):
            _readable(path)
        try:
            context.load_verify_locations(self.authority)
        except (ssl.SSLError, OSError) as error:
            raise ConfigurationError(f"{self.authority}: no certificate of an authority (PEM)") from error
        try:
            context.load_cert_chain(self.certificate, self.key, _no_password)
        except (ssl.SSLError, OSError) as error:
            if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
                raise ConfigurationError(f"{self.key}: not the key of {self.certificate}") from error
            raise ConfigurationError(
                f"{self.certificate}, {self.key}: expected a certificate and its key without a password, both PEM ({error})"
            ) from error
        return context

    def _check_key(self) -> None:
        found = _readable(self.key)
        if found.st_mode & 0o077:
            raise ConfigurationError(
                f"{self.key}: others may read it (mode {stat.S_IMODE(found.st_mode):o}): chmod 600 it; if anybody has, make a new one"
            )
        if found.st_uid not in {0, os.geteuid()}:
            raise ConfigurationError(f"{self.key}: belongs to user {found.st_uid}, not to {os.geteuid()}; chown it")

    def _prove(self, context: ssl.SSLContext) -> None:
        """Shake hands with ourselves: what clients would refuse is said now, and not first by them."""
        asking = self._context(ssl.PROTOCOL_TLS_CLIENT)
        asking.check_hostname = False
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = context.wrap_bio(there, back, server_side=True)
        client = asking.wrap_bio(back, there)
        for end in (client, server, client):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as error:
                raise ConfigurationError(
                    f"{self.certificate}: every client would refuse it: {error.verify_message}"
                ) from error


def _readable(path: Path) -> os.stat_result:
    try:
        with path.open("rb") as file:
            return os.fstat(file.fileno())
    except OSError as error:
        raise ConfigurationError(
            f"{path}: {error.strerror}. TLS needs ca.crt, host.crt and host.key in {path.parent} ({VARIABLE} names another folder)"
        ) from error


def _no_password() -> str:
    """Nobody is there to type one."""
    return ""


def is_refusal(error: ssl.SSLError) -> bool:
    """Whether one end does not accept the other; else the connection was cut off."""
    alert = any(words in str(error).lower() for words in _ALERTS)
    return isinstance(error, ssl.SSLCertVerificationError) or alert or (error.reason or "") in _REASONS


def said(error: BaseException) -> str:
    """Why TLS with the other end failed, in a few words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message or error}"
    if isinstance(error, ssl.SSLError):
        text = str(error).lower()
        alert = next((words for words_of, words in _ALERTS.items() if words_of in text), "")
        return alert or _REASONS.get(error.reason or "", "") or f"TLS fails: {error.reason or error}"
    return str(getattr(error, "strerror", None) or error)
