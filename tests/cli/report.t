# From the files of a run: report, explain, compare.

+ one.lua
| return {
|   name = "one", about = "two prompts, two waves",
|   options = {len = {help = "tokens of each", default = 3000, min = 1}},
|   cases = function(opt)
|     return {{name = "it", model = "Qwen3.6-35B-A3B", layers = 4, cp = 2,
|              waves = 2, batch = batch.lengths{opt.len, opt.len}}}
|   end,
| }

$ peakproof report
= 3
!* *out*No such file*

$ peakproof run one.lua >a

$ peakproof report
> out/accuracy.md
> out/timing.md
> out/errors.dat
> out/errors.gp
> out/tokens.dat
> out/tokens.gp
> out/composition.dat
> out/composition.gp
>...

$ grep -c '^| `it` | cold ' out/accuracy.md
> 1

# what no case answers to says which command does
$ grep -A2 'one real sequence per wave' out/accuracy.md
> Not in this folder: one real sequence per wave, EP1 and EP2. This command makes
> it:
>

# pictures only where gnuplot is
$ PATH=${PATH%%:*} peakproof report out >b
!* *no gnuplot, so no pictures*

$ peakproof report --json out | grep -c 'accuracy.md'
> 1

$ for f in csv json html; do peakproof report --format $f out | sed -n 1p; done
> out/accuracy.csv
> out/accuracy.json
> out/accuracy.html

$ peakproof report --format pdf out
= 2
!* *--format*

# the same records give the same bytes
$ cp out/accuracy.md a; peakproof report out >b; cmp a out/accuracy.md

$ peakproof explain out it | grep -c 'per-rank/'
> 4

$ peakproof explain --json out one/it | grep -c '"id": "terms"'
> 6

$ peakproof explain out ti
= 2
!* *no case 'ti' (did you mean 'it'?)*

$ peakproof explain out
= 2
!* *

$ peakproof run --out new one.lua >a; peakproof compare --check out new
> # peakproof: two runs
>
> 1 cases the same, 0 changed (0 figures beside those above), 0 only in the old
> run, 0 only in the new.

$ peakproof run --out new one.lua -- len=3001 >a; peakproof compare --check out new >b
= 4
!* *out and new differ in 1 cases*

$ grep -c 'one/it.*peak, total' b
> 2

# a record that was tampered with
$ sed -i 's/,peak,total,[0-9]*,/,peak,total,12x,/' new/records.csv; peakproof report new
= 3
!* *new/records.csv:*: bytes: '12x' is not a whole number*
