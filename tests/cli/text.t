# Names that are not UTF-8 (Latin-1 here) run, are reported, and stand in
# records and JSON with '?' for each byte that these cannot hold.

$ printf 'return {name = "s", about = "x", cases = {{name = "c", model = "tiny", layers = 2, cp = 2, batch = batch.lengths{40}, measured = {series = "n\351", peak = 5}}}}' >s.lua; peakproof run --json --out "$(printf 'caf\351')" s.lua | grep folder
>   "folder": "caf?",

$ grep -c 'n?' caf*/cases.csv; grep -o "'caf?'" caf*/run.json; peakproof report caf* | grep -c accuracy
> 1
> 'caf?'
> 1

$ cp $TOP/lua/models/tiny.json "$(printf 'm\351.json')"; peakproof plan --lengths 40 --model m?.json --facts
! peakproof: m?.json: a model whose name is not UTF-8 cannot stand in facts (call it otherwise)
= 3

$ mkdir "$(printf 'd\351')"; mv s.lua d*/; peakproof run --out there d*/s.lua | tail -n 1; peakproof run --resume --out there d*/s.lua | tail -n 1 | grep -c '^1 case'; grep -c 'd?/s.lua"' there/run.json; mv d*/s.lua .
>* 1 case: 0 out of memory, 0 refused, 0 failed; *
> 1
> 1

$ peakproof replay --json "$(printf "caf\351")" >j; code=$?; grep file j; (exit $code)
>   "files": [
>       "file": "caf?",
= 3

# What is printed for people holds no control characters, whatever the names
# of files and folders hold.

$ peakproof run --out "$(printf 'o\033[1m')" s.lua >a; cp $TOP/tests/golden/snapshots/basic.pickle "$(printf 'e\033[1m.pickle')"
$ peakproof compare o* o* >a; peakproof replay e*.pickle >b; peakproof compare e*.pickle e*.pickle >c; LC_ALL=C grep -c "$(printf '\033')" a b c; grep -o 'e?\[1m.pickle' b; peakproof report o* >d; LC_ALL=C grep -c "$(printf '\033')" o*/accuracy.md
> a:0
> b:0
> c:0
> e?[1m.pickle
> 0
= 1
