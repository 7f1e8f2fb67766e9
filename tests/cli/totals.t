# What a rank takes of its device is one number, dispatch buffers included,
# wherever it is shown.

+ one.lua
| return {name = "one", cases = {{
|   name = "it", model = "Qwen3.6-35B-A3B", cp = 2, ep = 2, waves = 3,
|   learning_rate = 1e-3, batch = batch.lengths{20000, 7000},
| }}}

$ peakproof fit --memory 80G --lengths 20000,7000 --ep 2 --json | sed -n '/"simulated"/,/"dispatch_bytes"/s/.*"\(needed\|dispatch\)_bytes": \([0-9]*\).*/\1 \2/p' >fit; wc -l <fit
> 2
$ fit=$(sed -n 's/needed //p' fit); echo "$fit" >total; test "$fit" -gt 40000000000
$ peakproof fit --memory 80G one.lua --only it --json | grep -c "\"needed_bytes\": $(cat total)"
> 1
$ peakproof run --json one.lua | sed -n 's/.*"device_bytes": \([0-9]*\).*/\1/p' | sort -n | tail -n 1 | cmp - total
$ awk -F, 'NR > 1 && $9 + $16 > m { m = $9 + $16 } END { printf "%.0f\n", m }' out/peaks.csv | cmp - total
$ awk -F, 'NR > 1 { print $16 }' out/peaks.csv | sort -u | sed 's/^/dispatch /' | grep -c -x -F -f fit
> 1
$ peakproof explain out it | tr '\n' ' ' | grep -o 'the rank takes [0-9,]*' | tr -dc '0-9\n' | sort -n | tail -n 1 | cmp - total
$ peakproof explain out it | tr '\n' ' ' | grep -o 'dispatch buffers of [0-9,]* included' | tr -dc '0-9\n' | sort -u | sed 's/^/dispatch /' | grep -c -x -F -f fit
> 1
$ peakproof run one.lua | awk '$4 == "cold" || $4 == "warm" || $3 == "cold" || $3 == "warm" { print $5 }' | sort -n | tail -n 1 >shown; awk '{ printf "%.3f\n", $1 / 1e9 }' total | cmp - shown
$ peakproof report out >files; grep '^| `it`' out/accuracy.md | cut -d '|' -f 6 | tr -d ' ' | sort -n | tail -n 1 | cmp - shown

# On a device that much smaller it does not fit, on one just as large it does.

$ sed "s/waves = 3/waves = 3, device_bytes = $(cat total)/" one.lua >just.lua; peakproof run --out just just.lua >table
$ sed "s/waves = 3/waves = 3, device_bytes = 45000000000/" one.lua >small.lua; peakproof run --out small small.lua 2>said >table
= 6
$ grep -c 'one/it: rank [01]: out of device memory: .* the dry device has 45000000000 B, ' said
> 1

# What is taken then is what the allocator has reserved, and dispatch buffers.

$ sed 's/.*reserved \([0-9]*\) B.* \([0-9]*\) B of them taken.*/\1 \2/' said | awk '{ print "dispatch", $2 - $1 }' | grep -c -x -F -f fit
> 1
$ awk -F, '$8 == "total" && $10 == "oom" { print $11 }' small/records.csv | sed 's/.*rank/rank/' | grep -c -F -f - said
> 1

# The summary has every estimator, however many there are.

+ forty.lua
| for i = 1, 40 do
|   estimator{name = "mine-" .. i, price = function() return {raw = i} end}
| end
| return {cases = {{name = "a", model = "tiny", batch = batch.lengths{64}}}}
$ peakproof run --totals --out forty forty.lua | grep -c '^  mine-'
> 40
