#!/bin/sh
# usage: faces.sh ROOT
# What a room below ROOT's src shows, and what is inside: a header that says
# "Inside src/ROOM." in the comment at its top may be included from that room
# alone, and one that no other room sees must say so. A header is seen where a
# file of another room, of bench or of cuda includes it, or a header of its own
# room that is seen. Prints a line for each that is marked wrongly.
LC_ALL=C
export LC_ALL
cd "$1" || exit 1
find src bench cuda -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' |
    LC_ALL=C sort | awk '
    function room_of(path, part) {
        split(path, part, "/")
        return part[1] == "src" ? part[2] : part[1]
    }
    { file[NR] = $0 }
    END {
        for (i = 1; i <= NR; i++) {
            f = file[i]
            top = 1
            while ((getline line <f) > 0) {
                if (top && line ~ "Inside src/" room_of(f) "[.]")
                    inside[f] = 1
                if (line ~ /[*]\/$/) top = 0
                if (line !~ /^#include "/) continue
                split(line, part, "\"")
                h = "src/" part[2]
                if (room_of(h) != room_of(f)) seen[h] = 1
                else if (f ~ /h$/) up[++n] = h " " f
                if (room_of(h) != room_of(f)) by[h] = f
            }
            close(f)
        }
        do {
            more = 0
            for (i = 1; i <= n; i++) {
                split(up[i], part, " ")
                if (!(part[2] in seen) || part[1] in seen) continue
                seen[part[1]] = 1
                by[part[1]] = part[2]
                more = 1
            }
        } while (more)
        for (i = 1; i <= NR; i++) {
            h = file[i]
            if (h !~ /^src.*h$/) continue
            if (h in inside && h in seen)
                print h ": is inside, and " by[h] " includes it"
            if (!(h in inside) && !(h in seen))
                print h ": no other room sees it: Inside src/" room_of(h) "."
        }
    }'
