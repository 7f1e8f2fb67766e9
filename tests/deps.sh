#!/bin/sh
# usage: deps.sh PACKAGE...    (what "make deps" runs)
# Installs the Debian packages that are missing. apt waits for dpkg's lock
# when told to, but not for that of the package lists: both are waited for
# here, up to WAIT seconds each.
wait=${WAIT:-600}

missing=
for p; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' ||
        missing="$missing $p"
done
if [ -z "$missing" ]; then
    echo 'deps: nothing is missing'
    exit
fi
command -v apt-get >/dev/null || {
    echo "deps: no apt-get here; install what these Debian packages hold:" \
        "$missing"
    exit 1
}
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
said=$(mktemp) || exit 1
trap 'rm -f "$said"' EXIT

# apt ARGUMENT...: apt-get, again and again while another holds a lock.
apt() {
    waited=0
    while :; do
        $sudo env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get \
            -o DPkg::Lock::Timeout="$wait" "$@" >"$said" 2>&1
        code=$?
        cat "$said"
        if [ $code -eq 0 ] || [ $waited -ge "$wait" ] ||
            ! grep -q 'Could not get lock' "$said"; then
            return $code
        fi
        [ $waited -gt 0 ] || echo "deps: waiting for another apt-get to end"
        sleep 1
        waited=$((waited + 1))
    done
}

echo "deps: installing$missing"
# shellcheck disable=SC2086  # the packages, one by one
apt update -q && apt install -q -y --no-install-recommends $missing
