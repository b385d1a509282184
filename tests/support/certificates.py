"""A certificate authority for one test: keys and certificates from the distribution's openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def make(folder: Path, *names: str) -> None:
    """ca.crt, and NAME.crt with NAME.key for each name, signed by it, valid for 127.0.0.1 and ::1."""
    ca = ("-x509", "-subj", "/CN=test authority", "-days", "1", "-keyout", "ca.key", "-out", "ca.crt")
    _openssl(folder, "req", *_KEY, *ca)
    (folder / "san.cnf").write_text("subjectAltName=IP:127.0.0.1,IP:::1\n")
    for name in names:
        _openssl(folder, "req", *_KEY, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signing = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1", "-extfile", "san.cnf")
        _openssl(folder, "x509", "-req", "-in", f"{name}.csr", *signing, "-out", f"{name}.crt")


def _openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
