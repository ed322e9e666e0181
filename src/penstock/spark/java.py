"""Finding a Java that Spark runs on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from penstock.errors import MissingPackageError

LEAST_JAVA = 17
_PLACES = ("/usr/lib/jvm", "/Library/Java/JavaVirtualMachines", "/opt/homebrew/opt")
_PREFERRED = (17, 21)
"""What every supported Spark is tested on; newer ones are taken if there is nothing else."""
_INSTALL = {
    "apt-get": "sudo apt-get install --yes openjdk-17-jre-headless",
    "dnf": "sudo dnf install --assumeyes java-17-openjdk-headless",
    "zypper": "sudo zypper install --no-confirm java-17-openjdk-headless",
    "pacman": "sudo pacman --sync --noconfirm jre17-openjdk-headless",
    "apk": "sudo apk add openjdk17-jre-headless",
    "brew": "brew install openjdk@17",
}


def install_command() -> str | None:
    """The one command that installs Java here; None when no known package manager is there."""
    return next((text for tool, text in _INSTALL.items() if shutil.which(tool)), None)


def java_version(home: Path) -> int | None:
    """The major version of the Java in this directory; None when there is none that runs."""
    try:
        done = subprocess.run(
            [home / "bin" / "java", "-version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(found.group(1)) if found else None


def find_java(environment: Mapping[str, str] = os.environ) -> Path:
    """The home of a Java that Spark runs on.

    JAVA_HOME decides if it is set; otherwise the `java` on the PATH, and then what is installed in
    the usual places, are looked at, versions 17 and 21 first. Raises MissingPackageError with the
    command to type.
    """
    if environment.get("JAVA_HOME"):
        home = Path(environment["JAVA_HOME"])
        version = java_version(home)
        if version is None or version < LEAST_JAVA:
            found = f"holds Java {version}" if version else "holds no Java that runs"
            raise MissingPackageError(
                f"JAVA_HOME={home} {found}; Spark needs Java {LEAST_JAVA} or newer. Correct "
                f"JAVA_HOME, or unset it{_or_install()}."
            )
        return home
    seen: dict[Path, int] = {}
    for home in _homes(environment):
        version = java_version(home)
        if version in _PREFERRED:
            return home
        if version is not None:
            seen.setdefault(home, version)
    fit = [home for home, version in seen.items() if version > LEAST_JAVA]
    if fit:
        return fit[0]
    have = ", ".join(f"Java {v} in {h}" for h, v in seen.items()) or "no Java"
    raise MissingPackageError(
        f"Spark needs Java {LEAST_JAVA} or newer; there is {have}. Set JAVA_HOME to one"
        f"{_or_install()}."
    )


def _or_install() -> str:
    command = install_command()
    if command:
        return f", or type: {command}"
    kind = "the OpenJDK 17 installer" if sys.platform == "win32" else "OpenJDK 17"
    return f", or install {kind} (a JRE is enough)"


def _homes(environment: Mapping[str, str]) -> Iterator[Path]:
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path:
        yield Path(on_path).resolve().parent.parent
    for place in _PLACES:
        for entry in sorted(Path(place).glob("*")):
            if (entry / "bin" / "java").exists():
                yield entry
            elif (entry / "Contents" / "Home" / "bin" / "java").exists():
                yield entry / "Contents" / "Home"
