"""The web-config file of Prometheus' exporter toolkit: TLS and passwords of a server."""

from __future__ import annotations

import ipaddress
import re
import ssl
from pathlib import Path
from typing import Final

import cattrs
from attrs import Factory, field, frozen

from lab import yamlfile
from lab.errors import ConfigurationError

# Form: github.com/prometheus/exporter-toolkit, docs/web-configuration.md; `promtool check web-config FILE` knows it
# too.


BCRYPT: Final = re.compile(r"\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}")
_VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_VERIFIED: Final = "RequireAndVerifyClientCert"
_CLIENT_AUTH: Final = ("NoClientCert", _VERIFIED)


@frozen
class Tls:
    """tls_server_config. Files are relative to the web-config file."""

    cert_file: str
    key_file: str
    client_auth_type: str = "NoClientCert"
    client_ca_file: str = ""
    min_version: str = "TLS12"


@frozen
class WebConfig:
    """A web-config file.

    Attributes:
        basic_auth_users: name -> bcrypt hash of the password.
    """

    tls_server_config: Tls | None = None
    basic_auth_users: dict[str, str] = field(default=Factory(dict), repr=False)
    folder: Path = Path()

    @property
    def authenticates(self) -> bool:
        """Return whether a password or a verified certificate is required."""
        tls = self.tls_server_config
        return bool(self.basic_auth_users) or (tls is not None and tls.client_auth_type == _VERIFIED)

    def context(self) -> ssl.SSLContext | None:
        """The TLS context of the server's sockets; None without TLS.

        Raises:
            ConfigurationError: a certificate or key cannot be read, or they do not fit.
        """
        tls = self.tls_server_config
        if tls is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = _VERSIONS[tls.min_version]
        try:
            context.load_cert_chain(self.folder / tls.cert_file, self.folder / tls.key_file)
            if tls.client_auth_type == _VERIFIED:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(self.folder / tls.client_ca_file)
        except OSError as error:  # ssl.SSLError is one
            raise ConfigurationError(
                f"the web-config's certificates in {self.folder} cannot be used ({error}); mend cert_file, key_file "
                "and client_ca_file"
            ) from error
        return context


def load(path: Path) -> WebConfig:
    """Read a web-config file.

    Raises:
        ConfigurationError: the file cannot be read, or asks for more than this server has.
    """
    try:
        data = yamlfile.load(path) or {}
    except ConfigurationError as error:  # its message may quote a password
        cause = error.__cause__ or error
        reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else type(cause).__name__
        raise ConfigurationError(f"{path}: cannot be read as a web-config file: {reason}") from None
    converter = cattrs.Converter(forbid_extra_keys=True)
    try:
        config = converter.structure({**data, "folder": str(path.absolute().parent)}, WebConfig)
    except (cattrs.BaseValidationError, TypeError, ValueError) as error:
        reasons = "; ".join(cattrs.transform_error(error)) if isinstance(error, cattrs.BaseValidationError) else ""
        raise ConfigurationError(
            f"{path}: {reasons or 'not a mapping'}; this server knows tls_server_config (cert_file, key_file, "
            "client_auth_type, client_ca_file, min_version) and basic_auth_users"
        ) from error
    tls = config.tls_server_config
    if tls is not None and tls.min_version not in _VERSIONS:
        raise ConfigurationError(f"{path}: min_version {tls.min_version!r}: expected {' or '.join(_VERSIONS)}")
    if tls is not None and tls.client_auth_type not in _CLIENT_AUTH:
        raise ConfigurationError(
            f"{path}: client_auth_type {tls.client_auth_type!r}: expected {' or '.join(_CLIENT_AUTH)}"
        )
    if tls is not None and (tls.client_auth_type == _VERIFIED) != bool(tls.client_ca_file):
        raise ConfigurationError(f"{path}: client_auth_type: {_VERIFIED} and client_ca_file need each other")
    for user, secret in config.basic_auth_users.items():
        if not BCRYPT.fullmatch(secret):
            raise ConfigurationError(
                f"{path}: the password of {user!r} is not a bcrypt hash; make one: htpasswd -nBC 10 {user}"
            )
    return config


def check_address(host: str, config: WebConfig | None) -> None:
    """Refuse to listen for other machines without TLS and authentication.

    Raises:
        ConfigurationError: `host` is no IP address, or one that is not loopback and not protected.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError as error:
        raise ConfigurationError(
            f"--listen {host}: expected the IP address of an interface, e.g. 127.0.0.1:9870 or [::1]:9870"
        ) from error
    if address.is_loopback:
        return
    if config is None or config.tls_server_config is None or not config.authenticates:
        raise ConfigurationError(
            f"--listen {host} is open to other machines: that needs TLS and authentication. Give --web-config a file "
            f"with tls_server_config and either basic_auth_users or client_auth_type: {_VERIFIED}; or listen "
            "on 127.0.0.1"
        )
