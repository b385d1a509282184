"""An identity whose key others may read, or that nobody would accept, is refused before anything listens or connects."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support import certificates

from lab.errors import ConfigurationError
from lab.host.tls import FOLDER, VARIABLE, Identity


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("authority")
    certificates.make(folder, "host", "other")
    certificates.sign(folder, "old", days=-1)
    certificates.sign(folder, "asking", purpose="clientAuth")
    return folder


@pytest.fixture
def identity(made: Path, tmp_path: Path) -> Identity:
    return Identity(certificates.identity(made, "host", tmp_path / "tls"))


def test_whole_and_private_it_is_taken(identity: Identity) -> None:
    assert identity.server().minimum_version == identity.client().minimum_version
    assert identity.server().verify_mode.name == "CERT_REQUIRED"
    assert identity.client().check_hostname


def test_a_variable_names_its_folder(tmp_path: Path) -> None:
    assert Identity.found({VARIABLE: str(tmp_path)}).folder == tmp_path
    assert Identity.found({}).folder == FOLDER


def open_to_the_group(identity: Identity, _made: Path) -> None:
    identity.key.chmod(0o640)


def open_to_all(identity: Identity, _made: Path) -> None:
    identity.key.chmod(0o604)


def without_authority(identity: Identity, _made: Path) -> None:
    identity.authority.unlink()


def with_an_empty_authority(identity: Identity, _made: Path) -> None:
    identity.authority.write_text("")


def with_another_key(identity: Identity, made: Path) -> None:
    identity.key.write_bytes((made / "other.key").read_bytes())


def with_a_password(identity: Identity, _made: Path) -> None:
    words = ["openssl", "pkey", "-in", "host.key", "-aes256", "-passout", "pass:secret"]
    made = subprocess.run(words, cwd=identity.folder, check=True, capture_output=True)
    identity.key.write_bytes(made.stdout)


def with_rubbish(identity: Identity, _made: Path) -> None:
    identity.certificate.write_text("-----BEGIN CERTIFICATE-----\nrubbish\n-----END CERTIFICATE-----\n")


@pytest.mark.parametrize(
    ("spoilt", "said"),
    [
        (open_to_the_group, r"host\.key: others may read it \(mode 640\): chmod 600"),
        (open_to_all, r"host\.key: others may read it \(mode 604\): chmod 600"),
        (without_authority, r"ca\.crt: No such file .*BOARDLAB_TLS names another folder"),
        (with_an_empty_authority, r"ca\.crt: no certificate of an authority"),
        (with_another_key, r"host\.key: not the key of .*host\.crt"),
        (with_a_password, "its key without a password"),
        (with_rubbish, "expected a certificate and its key"),
    ],
)
def test_what_is_wrong_with_it_is_said_for_both_ends(
    identity: Identity, made: Path, spoilt: Callable[[Identity, Path], None], said: str
) -> None:
    spoilt(identity, made)
    for context in (identity.server, identity.client):
        with pytest.raises(ConfigurationError, match=said):
            context()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_key_of_another_user_is_refused(identity: Identity) -> None:
    os.chown(identity.key, 65534, 65534)
    with pytest.raises(ConfigurationError, match="belongs to user 65534"):
        identity.client()


@pytest.mark.parametrize(
    ("name", "said"), [("old", "certificate has expired"), ("asking", r"un(suit|support).* certificate purpose")]
)
def test_a_server_that_every_client_would_refuse_does_not_start(
    made: Path, tmp_path: Path, name: str, said: str
) -> None:
    spoilt = Identity(certificates.identity(made, name, tmp_path / "tls"))
    with pytest.raises(ConfigurationError, match=rf"every client would refuse it: {said}"):
        spoilt.server()
    spoilt.client()


def test_a_server_of_another_authority_does_not_start(made: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    certificates.make(other)
    identity = Identity(certificates.identity(made, "host", tmp_path / "tls"))
    identity.authority.write_bytes((other / "ca.crt").read_bytes())
    with pytest.raises(ConfigurationError, match="every client would refuse it"):
        identity.server()
