#!/bin/sh
# usage: run-html.sh BUILD
# The report as HTML: nothing from elsewhere, made for any width, tables in
# boxes that scroll by themselves; and where chromium is installed (it is too
# large for "make deps"), that no element is wider than a page of 360 or 1,280
# pixels, in the light and in the dark. The last line is "N passed, N failed".
build=$(cd "$1" && pwd) || exit 1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0

# check NAME COMMAND...
check() {
    label=$1
    shift
    if "$@" >"$scratch/said" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED html: $label"
        head -n 10 "$scratch/said"
    fi
}
none() { ! grep -oiE "$1" "$2"; }

# Every table is in a box of its own, which scrolls.
boxed() {
    [ "$(grep -o '<table' "$1" | wc -l)" = \
        "$(grep -o '<div class="box"><table' "$1" | wc -l)" ] &&
        grep -qF '.box{overflow-x:auto}' "$1"
}

"$build/peakproof" run --out "$scratch/out" pr-accuracy routing \
    random-weights >"$scratch/table" &&
    "$build/peakproof" report --format html "$scratch/out" >"$scratch/files"
pages=0
for page in "$scratch"/out/*.html; do
    name=$(basename "$page")
    pages=$((pages + 1))
    check "$name: addresses" none '(src|href)="?[a-z]*://|@import|url\(' \
        "$page"
    check "$name: scripts" none '<script|<iframe|<object| on[a-z]+=' "$page"
    check "$name: viewport" grep -q \
        '<meta name="viewport" content="width=device-width' "$page"
    check "$name: dark" grep -q 'prefers-color-scheme:dark' "$page"
    check "$name: fixed widths" none \
        '[^-]width: *[0-9.]+(px|pt|in|cm)|<(table|t[dhr]|img)[^>]* width=' \
        "$page"
    check "$name: tables in boxes" boxed "$page"
done
check 'three pages' [ "$pages" -eq 3 ]

# What is wider than the page, by a script put into a copy of it.
measure() {
    {
        sed 's/<\/body>//; s/<\/html>//' "$1"
        echo "<style>html{width:$2px}</style><script>
            const wide = [...document.body.children].filter(
                e => e.getBoundingClientRect().right > $2 + 1);
            const page = getComputedStyle(document.documentElement);
            document.title = 'wide: ' + wide.length + ' of ' +
                document.body.children.length + ', ' + page.colorScheme;
            </script></body></html>"
    } >"$scratch/copy.html"
    timeout 120 chromium --headless=new --no-sandbox --disable-gpu \
        --user-data-dir="$scratch/chromium" --window-size="$2,800" \
        --blink-settings=preferredColorScheme="$3" --dump-dom \
        "file://$scratch/copy.html" 2>/dev/null |
        grep -o '<title>wide: .*</title>' >"$scratch/wide"
    cat "$scratch/wide"
    grep -q 'wide: 0 of [1-9]' "$scratch/wide"
}
if command -v chromium >/dev/null; then
    for name in accuracy details; do
        for width in 360 1280; do
            check "$name at $width pixels, dark" measure \
                "$scratch/out/$name.html" "$width" 0
        done
    done
    check 'accuracy, light' measure "$scratch/out/accuracy.html" 1280 1
else
    echo 'html: no chromium: widths not checked'
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
