# The cpu device: the same step with real numbers.

$ peakproof run --device cpu --out cpu --only 'ragged.cp*' tiny-cpu.lua >table
$ cut -d , -f 1-5 cpu/losses.csv
> device,scenario,case,wave,temperature
> cpu,tiny-cpu,ragged.cp1.ep1,0,cold
> cpu,tiny-cpu,ragged.cp1.ep1,1,warm
> cpu,tiny-cpu,ragged.cp2.ep1,0,cold
> cpu,tiny-cpu,ragged.cp2.ep1,1,warm
> cpu,tiny-cpu,ragged.cp2.ep2,0,cold
> cpu,tiny-cpu,ragged.cp2.ep2,1,warm

# One loss by every way to split the work, and the same bits again.

$ awk -F, 'NR > 1 {d = $6 / 6.12366306 - 1; if (d * d > 1e-12) print}' cpu/losses.csv
$ peakproof run --device cpu --out again -j 2 --only 'ragged.cp*' tiny-cpu.lua >table; for f in records peaks cases losses; do cmp cpu/$f.csv again/$f.csv; done

# Where routing moves no rows between ranks, peaks are those of dry.

$ peakproof run --out dry --only 'ragged.*ep1' tiny-cpu.lua >table; grep 'ep1' cpu/peaks.csv | cut -d , -f 2- >a; sed 1d dry/peaks.csv | cut -d , -f 2- | diff - a

# Training: the loss falls.

$ peakproof run --device cpu --out train --only '*cp2*' tiny-train.lua -- waves=12 >table; awk -F, 'NR == 2 {a = $6} END {print ($6 < a / 2 ? "falls" : "does not fall")}' train/losses.csv
> falls

# What it cannot do.

$ peakproof run --device cpu --out o --only real-40 pr-accuracy.lua >table
! peakproof: pr-accuracy/real-40: a recorded layout has no tokens to compute on (use --device dry)
= 5

+ tiny.lua
| return {
|   name = "t",
|   options = {
|     key = {help = "key to set", default = "about", type = "string"},
|     value = {help = "its value", default = "none", type = "string"},
|   },
|   cases = function(opt)
|     return {{
|       name = "a", model = "tiny", dtype = "f32", cp = 2, ep = 2,
|       batch = batch.lengths{30, 20}, [opt.key] = opt.value,
|     }}
|   end,
| }
$ peakproof run --device cpu --out o tiny.lua >table
$ peakproof run --device cpu --out o tiny.lua -- key=device_bytes value=150M >table
!* peakproof: t/a: rank *: out of device memory: *
= 6
$ sed -n 's/.*,\(oom\|ok\),.*/\1/p' o/cases.csv
> oom
$ peakproof run --device cpu --out o tiny.lua -- key=weights value=none
!* peakproof: tiny.lua:*: case 'a': weights: no file or folder 'none'*
= 3
$ mkdir empty; peakproof run --device cpu --out o tiny.lua -- key=weights value=empty >table
!* peakproof: t/a: *empty*
= 3

# Tokens from a file: bytes, or ids.

$ printf '%050d' 7 >bytes.txt; peakproof run --device cpu --out b tiny.lua -- key=tokens value=bytes.txt >table
$ yes 48 | head -n 49 >same.ids; echo 55 >>same.ids; peakproof run --device cpu --out i tiny.lua -- key=tokens value=same.ids >table; cmp b/losses.csv i/losses.csv
$ printf 'short' >short.txt; peakproof run --device cpu --out o tiny.lua -- key=tokens value=short.txt >table
!* peakproof: t/a: short.txt: holds 5 tokens, the batch has 50
= 3
$ yes 48000 | head -n 50 >big.ids; peakproof run --device cpu --out o tiny.lua -- key=tokens value=big.ids >table
!* peakproof: t/a: big.ids: token 0: 48000 is not below the vocabulary of *
= 3
$ yes x | head -n 50 >bad.ids; peakproof run --device cpu --out o tiny.lua -- key=tokens value=bad.ids >table
!* peakproof: t/a: bad.ids: token 0: 'x' is not a token id
= 3
