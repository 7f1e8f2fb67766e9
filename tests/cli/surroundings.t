# Hostile surroundings: closed streams, limits of the shell, empty names.

+ good.lua
| return {name = "good", cases = {{name = "a", model = "tiny", cp = 2, ep = 2,
|   batch = batch.lengths{300}}}}
+ oom.lua
| return {name = "oom", cases = {{name = "a", model = "tiny",
|   device_bytes = "1M", batch = batch.lengths{500}}}}

# A closed stream's number does not become a record file's.
$ peakproof run --out o oom.lua 2>&- >/dev/null; echo $?; peakproof report o >/dev/null && head -n 1 o/records.csv | cut -c 1-15
> 6
> device,scenario
$ peakproof run --out o good.lua >&-
!...
= 1
$ peakproof report o >/dev/null
$ peakproof run --out o good.lua <&- >/dev/null 2>&-; echo $?; peakproof report o >/dev/null
> 0

# A file size limit is an error, and what was recorded stays whole.
$ (ulimit -f 1; peakproof run --out f good.lua -j 2 >/dev/null)
!* peakproof: cannot write f/*: File too large
= 1

# Little memory ends a command; it does not hang (ASan alone needs more).
$ grep -q __asan_init "$(command -v peakproof)" || (ulimit -v 100000; timeout 20 peakproof help terms >/dev/null)

# Names and values.
$ peakproof run --out '' good.lua
!* peakproof: *empty*
= 2
$ peakproof run --out o good.lua -- n=1 n=2
! peakproof: run: n is set twice after --
= 2
$ peakproof run --misses 0x10 --out o good.lua
!* peakproof: *--misses*
= 2
$ sed 's/ep = 2,/ep = 2, routing = {cv = 1e-160, seed = 1},/' good.lua >c.lua; peakproof run --out o c.lua
! peakproof: c.lua:1: case 'a': routing: cv: must be 0 or from 1e-09 to 16
!...
= 3
+ join.lua
| local x = ("x"):rep(1e7)
| while true do local y = x .. "a" end
$ timeout 60 peakproof list join.lua
! peakproof: join.lua:2: the script runs more than 200 million instructions (does a loop never end?)
!...
= 3

# Installed, the data lies beside the program's folder.
$ mkdir -p i/bin i/share; cp "$(command -v peakproof)" i/bin/; ln -s "$TOP/lua" i/share/peakproof; i/bin/peakproof list --models | sed -n 's/^tiny  *//p'
> qwen3_5_moe  4 (3 GDN)        64  2 of 8        0.00
$ PEAKPROOF_DATA=i peakproof list --models
! peakproof: PEAKPROOF_DATA: i has no folder models (unset it, or name the data folder)
= 1
