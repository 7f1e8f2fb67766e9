# Names that are not UTF-8 (Latin-1 here) run, are reported, and stand in
# records and JSON with '?' for each byte that these cannot hold.

$ printf 'return {name = "s", about = "x", cases = {{name = "c", model = "tiny", layers = 2, cp = 2, batch = batch.lengths{40}, measured = {series = "n\351", peak = 5}}}}' >s.lua; peakproof run --json --out "$(printf 'caf\351')" s.lua | grep folder
>   "folder": "caf?",

$ grep -c 'n?' caf*/cases.csv; grep -o "'caf?'" caf*/run.json; peakproof report caf* | grep -c accuracy
> 1
> 'caf?'
> 1

$ peakproof replay --json "$(printf "caf\351")" >j; code=$?; grep file j; (exit $code)
>   "files": [
>       "file": "caf?",
= 3
