#!/bin/sh
# usage: unused.sh ROOT OBJECTS
# What the files below ROOT's src and bench show to others, and nothing needs:
# a name that no other object of the program uses, nor a file of cuda. It is
# dead where its own file does not use it either, and should be static where
# it does and no test names it. Prints a line for each.
LC_ALL=C
export LC_ALL
cd "$1" || exit 1
objects=$2

# "UNIT NAME" of what is defined and used by no other object.
shown_alone() {
    (cd "$objects" && find src bench -name '*.o') | while read -r o; do
        [ -e "${o%.o}.c" ] && echo "$objects/$o"
    done | xargs nm -A | sed "s|^$objects/||; s|\.o:[0-9a-f ]*| |" | awk '
        $2 == "U" { used[$3] = 1 }
        $2 ~ /^[TDBRC]$/ && $3 != "main" { of[$3] = $1 }
        END { for (name in of) if (!(name in used)) print of[name], name }'
}

# Does a word stand in files of these folders?
named_in() {
    word=$1
    shift
    for folder in "$@"; do
        [ -d "$folder" ] && grep -rqw --include='*.c' --include='*.h' \
            --include='*.cu' --include='*.cuh' -e "$word" "$folder" &&
            return 0
    done
    return 1
}

# How often a file has a word outside comments.
count_in() {
    sed -e 's|/\*.*\*/||' -e '/\/\*/,/\*\//d' "$2" | grep -cw -e "$1"
}

shown_alone | sort | while read -r unit name; do
    named_in "$name" cuda && continue
    if [ "$(count_in "$name" "$unit.c")" -lt 2 ]; then
        echo "$unit.c: nothing in the program uses $name"
    elif ! named_in "$name" tests; then
        echo "$unit.c: its own file alone uses $name: static"
    fi
done
