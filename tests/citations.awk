# Are the texts that comments cite in the tree? A citation is NAME.md, alone or
# with sections and rows: "(model.md 2.2, 3.5 to 3.7)", "pricing.md 12, row 54".
# In a file that says "section numbers are NAME.md's", bare ones like 3.8 are
# citations too.
# Files: texts (NAME.md, with headings like "## 2. Forward" and "### 2.1 Norm",
# rows like "| 54 |") and sources; pages: names that `report` writes. Prints a
# line for each citation that leads nowhere.

function base(path) {
    sub(/.*\//, "", path)
    sub(/\.md$/, "", path)
    return path
}

function cite(name, section, row) {
    n_cite++
    of[n_cite] = name
    part[n_cite] = section
    line[n_cite] = row
    at[n_cite] = FILENAME ":" FNR
}

# NAME.md: the list of its sections is open until a word is not of it.
function open_text(word, name, rest) {
    name = rest = word
    sub(/^[(`]*/, "", name)
    rest = name
    sub(/\.md.*/, "", name)
    sub(/^[a-z]*\.md`?/, "", rest)
    cite(name, "", "")
    open = rest == "" ? name : ""
    rows = skip = 0
    section = ""
    if (rest ~ /^'s/ && before == "section numbers are") house = name
}

function in_list(word, bare) {
    if (skip) { skip = 0; bare = "and" }    # "form A" is no section
    if (bare == "form") skip = 1
    else if (bare ~ /^rows?$/) rows = 1
    else if (rows && bare ~ /^[0-9]+$/) cite(open, section, bare)
    else if (!rows && bare ~ number) cite(open, section = bare, "")
    else if (bare !~ /^(sections?|part|and|to)$/) open = ""
    if (word ~ /[);:.]$/) open = ""
}

function see(word, bare) {
    bare = word
    gsub(/[(),;:`]/, "", bare)
    sub(/\.$/, "", bare)
    if (word ~ /^[(`]*[a-z]+\.md/) open_text(word)
    else if (open != "") in_list(word, bare)
    else if (house != "" && bare ~ number && bare ~ /\./) cite(house, bare, "")
    last3 = last2; last2 = last1; last1 = tolower(bare)
    before = last3 " " last2 " " last1
}

BEGIN {
    number = "^([AB]|[0-9]+)(\\.[0-9]+)*$"
    n = split(pages, word, " ")
    for (i = 1; i <= n; i++) known[word[i]] = 1
}

FNR == 1 {
    open = house = heading = ""
    if (FILENAME ~ /\.md$/) known[base(FILENAME)]++
}

FILENAME ~ /\.md$/ && /^#/ {
    heading = $2
    sub(/\.$/, "", heading)
    has[base(FILENAME), heading] = 1
    next
}

FILENAME ~ /\.md$/ && /^\| [0-9]+ \|/ {
    has_row[base(FILENAME), heading, $2] = 1
}

{
    text = $0
    if (FILENAME !~ /\.md$/) {
        gsub(/"([^"\\]|\\.)*"/, "", text)
        sub(/^ *(\/?\*+|\/\/)/, "", text)
    }
    n = split(text, word, " ")
    for (i = 1; i <= n; i++) see(word[i])
}

END {
    for (i = 1; i <= n_cite; i++) {
        name = of[i]
        where = at[i] ": "
        if (part[i] == "" && !known[name])
            print where "no " name ".md in the tree"
        else if (part[i] == "" && known[name] > 1)
            print where "more than one " name ".md"
        else if (part[i] == "" || !known[name]) continue
        else if (!((name, part[i]) in has))
            print where name ".md has no section " part[i]
        else if (line[i] != "" && !((name, part[i], line[i]) in has_row))
            print where name ".md " part[i] " has no row " line[i]
    }
}
