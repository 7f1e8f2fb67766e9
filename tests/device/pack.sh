#!/bin/sh
# usage: tests/device/pack.sh BUILD FILE.tar.gz
#
# What tests/device/run.sh needs on a machine without this tree's packages:
# program, module, device tests (make all cuda device-tests, with CUDA_ARCH as
# there), the scenarios, and the shared libraries that they load here. There:
#   mkdir d && cd d && tar xzf FILE && sh tests/device/run.sh out
set -eu
build=$1 file=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/build/device" "$dir/build/lib" "$dir/tests"
cp "$build/peakproof" "$build/peakproof-cuda.so" "$build/bench-device" \
    "$dir/build"
cp "$build"/device/test_cuda_* "$dir/build/device"
cp -R lua "$dir"
cp -R tests/device "$dir/tests"
# By name, as the loader finds them; libc and CUDA are those of the machine.
libs='lua5\.4|jansson|csv|cmocka|openblas|gfortran|quadmath'
for p in "$build/peakproof" "$build/device/test_cuda_plain" \
         "$(ldconfig -p | sed -n 's/.*libopenblas\.so\.0 .*=> //p' |
            head -n 1)"; do
    [ -e "$p" ] || continue
    case $p in *.so*) echo "x => $p" ;; esac
    ldd "$p"
done | sed -n "s/.* => \(\/[^ ]*\).*/\1/p" | grep -E "lib($libs)[^/]*$" |
    sort -u | while read -r f; do cp -L "$f" "$dir/build/lib"; done
find "$dir/build" -type f -exec strip --strip-debug {} + 2>/dev/null || true
# (line tables of device code are not debug sections: faults keep their lines)
(cd "$dir" && tar cf - .) | gzip -6 >"$file"
ls -l "$file"
