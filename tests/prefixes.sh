#!/bin/sh
# usage: prefixes.sh ROOT OBJECTS
# Functions that rooms below src show, by the first word of their names: a word
# belongs to one room, so that a name says where it is from.
LC_ALL=C
export LC_ALL
cd "$1" || exit 1
(cd "$2" && find src -name '*.o') | while read -r o; do
    [ -e "${o%.o}.c" ] && echo "$2/$o"
done | xargs nm -A | sed "s|^$2/||" |
    sed 's|^src/\([a-z]*\)/[^:]*:[0-9a-f ]*|\1 |' | awk '
    $2 == "T" {
        word = $3
        sub(/_.*/, "", word)
        if ((word, $1) in seen) next
        seen[word, $1] = $3
        rooms[word] = rooms[word] " " $1
        n[word]++
    }
    END {
        for (word in n)
            if (n[word] > 1) print word "_:" rooms[word]
    }' | sort
