"""Certificates that a test makes for its servers."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificates:
    """A certificate for this machine, its key, and the authority that signed it."""

    authority: Path
    certificate: Path
    key: Path


def make_certificates(folder: Path) -> Certificates:
    """New ones in this folder, which a server that is nobody's may read."""
    authority, own = folder / "authority.pem", folder / "server.pem"
    authority_key, own_key = folder / "authority.key", folder / "server.key"
    new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    _run(*new, "-subj", "/CN=authority", "-keyout", authority_key, "-out", authority)
    signed = ["-CA", authority, "-CAkey", authority_key]
    name = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    _run(*new, *name, *signed, "-keyout", own_key, "-out", own)
    own_key.chmod(0o600)
    if os.geteuid() == 0:
        for path in (folder, authority, own, own_key):
            shutil.chown(path, "nobody", "nogroup")
    return Certificates(authority, own, own_key)


def _run(*command: str | Path) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
