# sites.awk - where a small bug could be put: for each place in the C files
# given, a line "FILE<tab>LINE<tab>COLUMN<tab>LENGTH<tab>REPLACEMENT".
# Comments, strings, preprocessor lines and assertions are left alone. A
# deleted statement is one that stands whole on its line.

# Blanks out comments and quoted text, keeping every column.
function code(line,    out, i, c, two) {
    out = ""
    for (i = 1; i <= length(line); i++) {
        c = substr(line, i, 1)
        two = substr(line, i, 2)
        if (comment) {
            if (two == "*/") { comment = 0; out = out " "; i++ }
            out = out " "
        } else if (quote != "") {
            if (c == "\\") { out = out " "; i++ }
            else if (c == quote) quote = ""
            out = out " "
        } else if (two == "/*") {
            comment = 1
            out = out "  "
            i++
        } else if (c == "\"" || c == "'") {
            quote = c
            out = out " "
        } else {
            out = out c
        }
    }
    quote = ""
    return out
}

function site(at, len, with) {
    print FILENAME "\t" FNR "\t" at "\t" len "\t" with
}

# Every place of a fixed text.
function each(line, old, with,    at, from) {
    for (from = 1; (at = index(substr(line, from), old)) > 0;
         from += at + length(old) - 1)
        site(from + at - 1, length(old), with)
}

# Every plain decimal number: one more. Not the size of a buffer of text: with
# a byte more that nothing fills it is the same program.
function numbers(line,    rest, from, n, text) {
    text = line ~ /^ +((static|const) )*char /
    from = 1
    rest = line
    while (match(rest, /[0-9]+/)) {
        n = substr(rest, RSTART, RLENGTH)
        if (substr(line, from + RSTART - 2, 1) !~ /[A-Za-z0-9_.]/ \
            && substr(line, from + RSTART + RLENGTH - 1, 1) \
               !~ /[A-Za-z0-9_.]/ && length(n) < 10 \
            && !(text && substr(line, from + RSTART - 2, 1) == "["))
            site(from + RSTART - 1, RLENGTH, n + 1)
        from += RSTART + RLENGTH - 1
        rest = substr(line, from)
    }
}

function words(line, old, with,    at, from) {
    from = 1
    while (match(substr(line, from), "(^|[^A-Za-z0-9_])" old \
                 "([^A-Za-z0-9_]|$)")) {
        at = index(substr(line, from + RSTART - 1), old) + from + RSTART - 2
        site(at, length(old), with)
        from = at + length(old)
    }
}

# "if (a < b) a = b;": with equal ones it is the same program.
function extreme(line,    cond, at, put) {
    if (!match(line, /if \([^()&|]* [<>]=? [^()&|]*\) [^=;]* = [^=;]*;$/))
        return 0
    cond = substr(line, RSTART + 4, RLENGTH - 5)
    at = index(cond, ") ")
    put = substr(cond, at + 2)
    cond = substr(cond, 1, at - 1)
    sub(/ [<>]=? /, " = ", cond)
    if (cond == put) return 1
    split(cond, side, " = ")
    return side[2] " = " side[1] == put
}

FNR == 1 { comment = 0; quote = ""; continued = 0 }
{
    line = code($0)
    hash = line ~ /^ *#/ || continued
    continued = hash && $0 ~ /\\$/
    if (hash || line ~ /assert\(/ || line ~ /^[^ {}]/) next
    if (!extreme(line)) {
        each(line, " < ", " <= "); each(line, " <= ", " < ")
        each(line, " > ", " >= "); each(line, " >= ", " > ")
    }
    each(line, " == ", " != "); each(line, " != ", " == ")
    each(line, " && ", " || "); each(line, " || ", " && ")
    each(line, " + ", " - "); each(line, " - ", " + ")
    each(line, " * ", " + "); each(line, " += ", " -= ")
    each(line, "(!", "(")
    words(line, "true", "false"); words(line, "false", "true")
    words(line, "continue", "break"); numbers(line)
    if (line ~ /^ +[a-z_]+\(.*\);$/ && line !~ /^ +(free|fclose|close)\(/)
        site(1, length($0), "")
    if (line ~ /^ +[A-Za-z_*][^=!<>]* [-+|]?= .*;$/ \
        && line !~ /^ +(const |static |unsigned |struct |enum |u?int|size_t |double |float |bool |char |real |FILE |json_t )/)
        site(1, length($0), "")
}
