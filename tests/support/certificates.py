"""A certificate authority for one test: keys and certificates from the distribution's openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def make(folder: Path, *names: str) -> None:
    """ca.crt, and NAME.crt with NAME.key for each name, signed by it, valid for 127.0.0.1 and ::1."""
    authority(folder)
    for name in names:
        sign(folder, name)


def authority(folder: Path) -> None:
    """ca.crt and ca.key."""
    ca = ("-x509", "-subj", "/CN=test authority", "-days", "1", "-keyout", "ca.key", "-out", "ca.crt")
    # Python 3.13 accepts no other authority (ssl.VERIFY_X509_STRICT, RFC 5280)
    _openssl(folder, "req", *_KEY, *ca, "-addext", "keyUsage=critical,keyCertSign,cRLSign")


def sign(folder: Path, name: str, hosts: str = "IP:127.0.0.1,IP:::1", days: int = 1, purpose: str = "") -> None:
    """NAME.crt with NAME.key, of the authority of this folder.

    Args:
        hosts: subjectAltName. days: how long it is good for; -1: it expired yesterday. purpose: extendedKeyUsage; "": any.
    """
    usage = f"extendedKeyUsage={purpose}\n" if purpose else ""
    (folder / "extensions.cnf").write_text(f"subjectAltName={hosts}\nauthorityKeyIdentifier=keyid\n{usage}")
    _openssl(folder, "req", *_KEY, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
    signing = (
        "-CA",
        "ca.crt",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-days",
        str(days),
        "-extfile",
        "extensions.cnf",
    )
    _openssl(folder, "x509", "-req", "-in", f"{name}.csr", *signing, "-out", f"{name}.crt")


def _openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
