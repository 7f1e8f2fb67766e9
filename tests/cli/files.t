# What a script reads: a folder does not hide the file of its name, and
# price() opens no file that the run does not know.

+ s.lua
| local x = require "x"
| return {name = "s", about = "x", cases = {{name = "c", model = "tiny",
|   layers = 2, cp = 2, batch = batch.lengths{x, #csv.rows{file = "rows"}}}}}

$ mkdir x rows tiny; echo 'return 40' >x.lua; printf 'a\n1\n' >rows.csv; peakproof run --out o s.lua | grep -c per-rank-any
> 2

$ rm x.lua; peakproof run --out o s.lua
!* peakproof: s.lua:1: x: Is a directory
!...
= 3

+ late.lua
| estimator{name = "late", price = function(f)
|   return {raw = require("x")}
| end}

+ early.lua
| local rows = csv.rows{file = "rows"}
| require "x"
| estimator{name = "early", price = function(f)
|   return {raw = require("x") + #csv.rows{file = "rows"}}
| end}

$ echo 'return 40' >x.lua; peakproof run --out o --estimator late.lua s.lua
>...
! peakproof: s/c: late.lua:2: x.lua: price() may not be the first to read a file, or --resume would not know it (read it where the estimator is declared)
!...
= 3

$ peakproof run --out o --estimator early.lua s.lua | grep -c ' early '
> 2

# Nine petabytes are enough: a larger figure could not be added up.

$ echo 'estimator{name = "huge", price = function(f) return {raw = math.maxinteger} end}' >huge.lua; peakproof run --out o --estimator huge.lua s.lua
>...
!* *raw: must be from 0 to 9007199254740992, not 9223372036854775807
!...
= 3

$ peakproof report ""
! peakproof: report: an operand is empty (an unset variable?)
= 2

# The columns that README.md tells of are those of the file.

$ awk -F'|' '/^\| columns of `peaks.csv`/ { on = 1; next } !/^\|/ { on = 0 } on { print $2 }' $TOP/README.md | grep -o '`[a-z_]*`' | tr -d '`' >told; head -n 1 o/peaks.csv | tr , '\n' | cmp told -; wc -l <told
> 18
