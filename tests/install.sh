#!/bin/sh
# usage: install.sh install|uninstall BUILD PREFIX
# What "make install" and "make uninstall" do below PREFIX, which may hold
# blanks. Uninstalling removes what installing wrote, and folders that are
# empty then; a user's own files stay.
set -e
what=$1 build=$2 to=$3
share=$to/share/peakproof
man=$to/share/man/man1
completions=$to/share/bash-completion/completions

# Every file of the data folder, from there.
data() {
    (cd lua && find . -type f)
    (cd reports && find published -type f)
}

case $what in
install)
    install -d "$to/bin" "$share" "$man" "$completions"
    install "$build/peakproof" "$to/bin/peakproof"
    install -m 644 "$build/peakproof.1" "$man/peakproof.1"
    install -m 644 "$build/peakproof.bash" "$completions/peakproof"
    cp -R lua/. reports/published "$share"
    if [ -e "$build/peakproof-cuda.so" ]; then
        install -d "$to/lib/peakproof"
        install "$build/peakproof-cuda.so" "$to/lib/peakproof"
    fi ;;
uninstall)
    rm -f "$to/bin/peakproof" "$man/peakproof.1" "$completions/peakproof" \
        "$to/lib/peakproof/peakproof-cuda.so"
    data | while IFS= read -r file; do
        rm -f "$share/$file"
    done
    for dir in "$share" "$to/lib/peakproof"; do
        [ ! -d "$dir" ] || find "$dir" -depth -type d -empty -delete
    done ;;
*)
    echo "install.sh: install or uninstall, not '$what'" >&2
    exit 2 ;;
esac
