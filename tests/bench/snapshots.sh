#!/bin/sh
# usage: snapshots.sh BUILD
# Times replay on a snapshot of 4 MB, with a timeline on one of a million events
# (about 445 MB, kept in BUILD), and on two whose blocks give back the pages
# inside them, the second of twice as many; Python's unpickler beside it. Needs
# python3.
build=$1
command -v python3 >/dev/null || { echo 'no python3: not run'; exit 0; }

measure() {     # FILE RUNS: the best of them, with the most memory
    python3 - "$build/peakproof" "$1" "$2" <<'EOF'
import os
import pickle
import resource
import subprocess
import sys
import time

program, path, runs = sys.argv[1], sys.argv[2], int(sys.argv[3])
best = 1e9
command = [program, "replay", path]
if runs < 10:
    command += ["--timeline", path + ".svg"]
for _ in range(runs):
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    best = min(best, time.perf_counter() - start)
most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
start = time.perf_counter()
pickle.load(open(path, "rb"))
print("%5.0f MB: replay %.4f s, %d MB of memory; Python's unpickler %.3f s" %
      (os.path.getsize(path) / 1e6, best, most / 1000,
       time.perf_counter() - start))
EOF
}

for events in 10000 1000000; do
    file=$build/bench-snapshot.$events.pickle
    [ -e "$file" ] || python3 tests/bench/make_snapshot.py "$file" $events 110
    measure "$file" $((events > 100000 ? 3 : 20))
done
for blocks in 20000 40000; do
    file=$build/bench-unmaps.$blocks.pickle
    [ -e "$file" ] || python3 tests/bench/make_unmaps.py "$file" $blocks
    measure "$file" 10
done
