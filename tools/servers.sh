#!/usr/bin/env bash
# Sees to it that the servers that tests start are installed: PostgreSQL and MariaDB. Nothing of
# them is started or changed here. Where installing needs a password, says the command to type.
set -euo pipefail

missing=()
compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null || missing+=(postgresql)
command -v mariadbd >/dev/null || [ -x /usr/sbin/mariadbd ] || missing+=(mariadb-server)
if [ ${#missing[@]} = 0 ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "The tests start these servers, which are not installed: ${missing[*]}. Install them, with" \
        "initdb in /usr/lib/postgresql/VERSION/bin and mariadbd in PATH." >&2
    exit 1
fi

install="apt-get install --yes --no-install-recommends ${missing[*]}"
as_root=
if [ "$(id -u)" != 0 ]; then
    if ! { command -v sudo >/dev/null && sudo --non-interactive true 2>/dev/null; }; then
        echo "The tests start servers that are not installed. Type:  sudo $install" >&2
        exit 1
    fi
    as_root="sudo --non-interactive "
fi

log=$(mktemp)
run() { # the words are a command, so they have no quotes
    echo "The tests start servers: $1"
    DEBIAN_FRONTEND=noninteractive $as_root$1 >"$log" 2>&1
}
if ! run "$install"; then
    # The package list may be old, or was never fetched.
    run "apt-get update" || true
    if ! run "$install"; then
        tail -5 "$log" >&2
        echo "That failed, see $log. When it is mended, type:  ${as_root:+sudo }$install" >&2
        exit 1
    fi
fi
rm -f "$log"
