#!/bin/sh
# usage: circles.sh ROOT [OBJECTS]
# Circles of more than two units below ROOT's src, bench and cuda. A unit is
# X.c with X.h (X.cu with X.cuh); A leads to B when a file of A includes one of
# B. With OBJECTS, the folder of the objects: when A uses a symbol that B
# defines. Prints a line for each circle.
LC_ALL=C
export LC_ALL
cd "$1" || exit 1

# "UNIT UNIT" a line.
by_includes() {
    find src bench cuda -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' |
        awk '
        function unit(path) { sub(/\.[a-z]*$/, "", path); return path }
        { known[$0] = 1; file[NR] = $0 }
        END {
            for (i = 1; i <= NR; i++) {
                dir = file[i]
                sub(/[^\/]*$/, "", dir)
                while ((getline line <file[i]) > 0) {
                    if (line !~ /^ *# *include "/) continue
                    split(line, part, "\"")
                    to = part[2]
                    if (dir part[2] in known) to = dir part[2]
                    if ("src/" part[2] in known) to = "src/" part[2]
                    if (to in known) print unit(file[i]), unit(to)
                }
                close(file[i])
            }
        }'
}

by_symbols() {
    (cd "$1" && find src bench -name '*.o') | while read -r o; do
        [ -e "${o%.o}.c" ] && echo "$1/$o"
    done | xargs nm -A | sed "s|^$1/||; s|\.o:[0-9a-f ]*| |" | awk '
        $2 == "U" { user[++n] = $1; used[n] = $3 }
        $2 ~ /^[TDBRC]$/ { of[$3] = $1 }
        END {
            for (i = 1; i <= n; i++)
                if (used[i] in of) print user[i], of[used[i]]
        }'
}

# Units that lead to each other, three or more.
circles() {
    awk '
    function follow(from, u, m, i, at, queue) {     # fills reach[from, *]
        queue[m = 1] = from
        for (at = 1; at <= m; at++)
            for (i = 1; i <= degree[queue[at]]; i++) {
                u = next_of[queue[at], i]
                if ((from, u) in reach) continue
                reach[from, u] = 1
                queue[++m] = u
            }
    }
    $1 != $2 && !(($1, $2) in edge) {
        edge[$1, $2] = 1
        next_of[$1, ++degree[$1]] = $2
        if (!($1 in seen)) { seen[$1] = 1; name[++n] = $1 }
    }
    END {
        for (i = 1; i <= n; i++) follow(name[i])
        for (i = 1; i <= n; i++) {
            a = name[i]
            if (a in told || !((a, a) in reach)) continue
            size = 0
            for (j = i; j <= n; j++) {
                b = name[j]
                if (!((a, b) in reach) || !((b, a) in reach)) continue
                text = size++ ? text " " b : b
                told[b] = 1
            }
            if (size > 2) print what ": " size " units: " text
        }
    }' what="$1"
}

by_includes | sort -u | circles includes
[ -z "$2" ] || by_symbols "$2" | sort -u | circles symbols
