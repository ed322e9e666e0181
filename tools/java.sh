#!/usr/bin/env bash
# Sees to it that there is a Java that Spark runs on: 17 or newer. Installs one with the system's
# package manager where that needs no password, and otherwise says the one command to type.
# Usage: tools/java.sh PYTHON   (the Python that has penstock)
set -euo pipefail

python=${1:?the Python that has penstock}
find_java='import sys
from penstock.errors import MissingPackageError
from penstock.spark.java import find_java
try:
    find_java()
except MissingPackageError as error:
    sys.exit(str(error))'

if said=$("$python" -c "$find_java" 2>&1); then
    exit 0
fi
if [ -n "${JAVA_HOME:-}" ]; then  # whoever sets it wants that one
    echo "$said" >&2
    exit 1
fi

# The package of the oldest Java that will do, of those that this system has.
available() {
    case $1 in
        apt-get) apt-cache show "$2" ;;
        dnf | yum) "$1" --quiet list "$2" ;;
        zypper) zypper --quiet --non-interactive info "$2" | grep -q '^Version' ;;
        pacman) pacman --sync --info "$2" ;;
        apk) apk search --exact "$2" | grep -q . ;;
        brew) brew info --formula "$2" ;;
    esac >/dev/null 2>&1
}
choose() {
    local manager=$1 package
    shift
    for package; do
        if available "$manager" "$package"; then
            echo "$package"
            return
        fi
    done
    echo "$1"
}

refresh=
decide() {
    if command -v apt-get >/dev/null; then
        refresh="apt-get update"
        install="apt-get install --yes --no-install-recommends $(choose apt-get \
            openjdk-17-jre-headless openjdk-21-jre-headless openjdk-25-jre-headless)"
    elif command -v dnf >/dev/null; then
        install="dnf install --assumeyes $(choose dnf java-17-openjdk-headless java-21-openjdk-headless)"
    elif command -v yum >/dev/null; then
        install="yum install --assumeyes $(choose yum java-17-openjdk-headless java-21-openjdk-headless)"
    elif command -v zypper >/dev/null; then
        install="zypper --non-interactive install $(choose zypper java-17-openjdk-headless java-21-openjdk-headless)"
    elif command -v pacman >/dev/null; then
        refresh="pacman --sync --refresh"
        install="pacman --sync --noconfirm $(choose pacman jre17-openjdk-headless jre21-openjdk-headless)"
    elif command -v apk >/dev/null; then
        refresh="apk update"
        install="apk add $(choose apk openjdk17-jre-headless openjdk21-jre-headless)"
    elif command -v brew >/dev/null; then
        install="brew install openjdk@17"
    else
        echo "Spark needs Java 17 or newer, and there is none. Install OpenJDK 17 (a JRE is" \
            "enough) and set JAVA_HOME." >&2
        exit 1
    fi
}

decide
if [ "$(id -u)" = 0 ] || [ "${install%% *}" = brew ]; then
    as_root=
elif command -v sudo >/dev/null && sudo --non-interactive true 2>/dev/null; then
    as_root="sudo --non-interactive "
else
    echo "Spark needs Java 17 or newer, and there is none. Type:  sudo $install" >&2
    exit 1
fi

log=$(mktemp)
run() { # the words are a command, so they have no quotes
    echo "Spark needs Java 17 or newer: $1"
    DEBIAN_FRONTEND=noninteractive $as_root$1 >"$log" 2>&1
}
if ! run "$install"; then
    # The package list may be old, or was never fetched; then other packages may be there, too.
    if [ -n "$refresh" ]; then
        run "$refresh" || true
        decide
    fi
    if [ -z "$refresh" ] || ! run "$install"; then
        tail -5 "$log" >&2
        echo "That failed, see $log. When it is mended, type:  ${as_root:+sudo }$install" >&2
        exit 1
    fi
fi
rm -f "$log"
"$python" -c "$find_java"
