# Miss reports: written for waves that are too far off, priced again to the
# byte, refused when they were changed.

$ peakproof run --misses 12.3 --out o --only real-40 pr-accuracy.lua >table; ls o/misses
> pr-accuracy.real-40.wave0.json
> pr-accuracy.real-40.wave1.json
$ peakproof price o/misses/pr-accuracy.real-40.wave0.json >priced; sed -n '/"raw_bytes"/p' priced | head -2
>       "raw_bytes": 25831390943,
>       "raw_bytes": 25818107903,
$ sed -n '/"facts"/,/^  },/p' o/misses/pr-accuracy.real-40.wave0.json | sed '1s/.*/{/; $s/.*/}/' | sed 's/^  //' >facts.json; peakproof price facts.json | cmp - priced

# Its percent are of the estimate: the peaks are 12.404 % and 12.478 % of it
# below the furthest one (14.2 % and 14.3 % of the peaks). A second run without
# misses leaves none.

$ peakproof run --misses 12.44 --out o --only real-40 pr-accuracy.lua >table; ls o/misses
> pr-accuracy.real-40.wave1.json
$ peakproof run --misses 12.5 --out o --only real-40 pr-accuracy.lua >table; ls o/misses

$ peakproof run --misses 0 --out o --only real-40 pr-accuracy.lua >table; mv o/misses/pr-accuracy.real-40.wave0.json m.json
$ sed 's/"total": 253/"total": 254/' m.json >x.json; peakproof price x.json
! peakproof: x.json: estimates[1].ranks[1].total: the report says 25456262399, its facts give 25356262399
= 3
$ sed 's/48194/48195/' m.json >x.json; peakproof price x.json
!* peakproof: x.json: *
= 3
$ sed 's/"input_layouts": \["attention"/"input_layouts": ["gdn"/' m.json >x.json; peakproof price x.json
! peakproof: x.json: input_layouts[0]: the report says "gdn", its facts give "attention"
= 3
$ sed 's/"allocated_bytes": 22626667008/"allocated_bytes": 22626667007/' m.json >x.json; peakproof price x.json
! peakproof: x.json: peak.ranks[1].categories: sum to 22626667008, allocated_bytes is 22626667007
= 3
$ sed 's/"wave": 0/"wave": 1/' m.json >x.json; peakproof price x.json
!* peakproof: x.json: fingerprint * does not fit (*): the report was changed
= 3
$ sed '$d' m.json >x.json; peakproof price x.json
!* peakproof: x.json:*: not JSON: *
= 3
$ sed 's/"peak": /"peek": /' m.json >x.json; peakproof price x.json
! peakproof: x.json: unknown key 'peek' (did you mean 'peak'?)
= 3
$ peakproof price - <m.json | cmp - priced

# Other spellings of the same report are the same report.

$ (sed '2d; $d' m.json | sed '$s/$/,/; s/"threshold_percent": 0.0/"threshold_percent": 0/; s/^ */      /'; echo '"format": 1}') >x.json; peakproof price x.json | cmp - priced
$ peakproof run --misses -1 pr-accuracy.lua
! peakproof: run: --misses: '-1' is not a number from 0 to 1e+06
= 2

# A config of one's own is in the report whole.

+ own.lua
| return {name = "own", cases = {{
|   name = "a", model = "mine.json", layers = 4, cp = 2, ep = 2,
|   batch = batch.lengths{3000, 1000},
| }}}
$ cp $TOP/lua/models/Qwen3.6-35B-A3B.json mine.json; peakproof run --misses 0 --out o own.lua >table; rm mine.json; peakproof price o/misses/own.a.wave0.json | grep -c raw_bytes
> 7

# An estimator of one's own, the tokens' lengths, and a wave that ran out of
# memory are in the report.

+ mine.lua
| estimator{name = "mine", price = function() return {raw = 5} end}
| return {name = "mine", cases = {
|   {name = "a", model = "Qwen3.6-35B-A3B", layers = 4, cp = 2, ep = 2,
|    batch = batch.lengths{3000, 1000}},
|   {name = "full", model = "Qwen3.6-35B-A3B", layers = 4, cp = 2, ep = 2,
|    device_bytes = "6G", batch = batch.lengths{30000, 1000}},
| }}
$ peakproof run --misses 10 --out o mine.lua >table
!...
= 6
$ ls o/misses
> mine.a.wave0.json
> mine.full.wave0.json
$ grep -A2 '"name": "mine"' o/misses/mine.a.wave0.json | grep -c .
> 3
$ grep -o '"tokens": [0-9]*' o/misses/mine.a.wave0.json
> "tokens": 3000
> "tokens": 1000
$ grep '"peak": null' o/misses/mine.full.wave0.json | grep -c .
> 1
$ peakproof price o/misses/mine.a.wave0.json | grep -c '"name": "mine"'
> 1
$ peakproof price o/misses/mine.full.wave0.json | grep -c '"name": "mine"'
> 1

# A miss is further off than the threshold: an estimate of twice the peak is 50
# percent of itself away from it, one of half the peak 100.

$ p=$(awk -F, '$3 == "a" && $6 == "max" && $7 == "peak" && $8 == "total" { print $9 }' o/records.csv); for n in 'twice 2 *' 'half 0.5 *'; do echo "return estimator{name = '${n%% *}', price = function() return {raw = ${n#* } $p // 1 | 0} end}" >${n%% *}.lua; done
$ for m in 49.99 50 99.99 100; do peakproof run --misses $m --only a --out o --estimator twice.lua --estimator half.lua mine.lua >table; sed -n 's/.*"estimators": .*"mine"/"mine"/p' o/misses/mine.a.wave0.json; done
> "mine", "twice", "half"]
> "mine", "half"]
> "mine", "half"]
> "mine"]
