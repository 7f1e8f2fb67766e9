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
! peakproof: out: no run there (peakproof run --out out writes one)
= 3

$ peakproof run one.lua >a

$ peakproof report
> out/accuracy.md
> out/timing.md
> out/errors.dat
> out/errors.gp
> out/errors.svg
> out/errors.png
> out/tokens.dat
>...

$ grep -c '^| `it` | cold ' out/accuracy.md
> 1

# the published comparison is not there, in one sentence; the cases come first
$ grep -A1 'not in this folder' out/accuracy.md
> The published cases are not in this folder: `make report` runs them and makes
> the comparison.
$ grep '^## ' out/accuracy.md | sed -n 1,2p
> ## Every case
> ## Rank by rank, term by term
$ grep -c 'Not in this folder' out/accuracy.md
= 1
> 0

# an estimator of one's own stands beside the others
+ mine.lua
| estimator{name = "mine", price = function(facts)
|   return {raw = 3000000000, terms = {attention = 1000000000,
|                                     moe_experts = 2000000000}}
| end}
$ peakproof run --estimator mine.lua --out own one.lua >a; peakproof report own >b
$ grep -c 'mine, raw' own/accuracy.md
> 1
$ grep -c 'mine' own/errors.gp own/tokens.gp own/composition.gp | sed 's/:[1-9].*/: yes/'
> own/errors.gp: yes
> own/tokens.gp: yes
> own/composition.gp: yes

# one that prices nothing has a panel, which says why
$ echo 'estimator{name = "never", price = function() return nil, "it is late" end}' >never.lua; peakproof run --estimator never.lua --out never one.lua >a; peakproof report never >b; grep 'does not apply' never/tokens.gp; grep -c 'does not apply: it is late' never/tokens.svg
>   set label 2 "does not apply: it is late" at graph 0.5, graph 0.6 center
> 1
$ peakproof explain own it | grep -A4 'against `mine`' | sed -n 1p
> The most-loaded rank against `mine`:
$ peakproof explain own it | grep -c '| `attention` .* 1,000,000,000 '
> 2

# pictures only where gnuplot is
$ PATH=${PATH%%:*} peakproof report out >b
!* *no gnuplot, so no pictures*

$ peakproof report --json out | grep -c 'accuracy.md'
> 1

# a folder's name that has a line feed is one name
$ name=$(printf 'two\nlines'); cp -r out "$name"; peakproof report --json "$name" | grep -c '"files": \["two\\nlines/accuracy.md", "two\\nlines/timing.md", '
> 1

$ for f in csv json html; do peakproof report --format $f out | sed -n 1p; done
> out/accuracy.csv
> out/accuracy.json
> out/accuracy.html

# numbers of other programs are bytes, and say so
$ grep -c '^cases-one,.*,"peak, bytes",[0-9]*$' out/accuracy.csv; grep -o '"peak, [a-zA-Z]*"' out/accuracy.csv out/accuracy.json | sort -u
> 2
> out/accuracy.csv:"peak, bytes"
> out/accuracy.json:"peak, bytes"

$ peakproof report --format pdf out
= 2
!* *--format*

# four at once, one after the other in drawing
$ for i in 1 2 3 4; do { peakproof report out >f$i 2>e$i; echo $? >c$i; } & done; wait; cat c? e?; cmp f1 f2; cmp f1 f3; cmp f1 f4
> 0
> 0
> 0
> 0

# the same records give the same bytes
$ cp out/accuracy.md a; peakproof report out >b; cmp a out/accuracy.md

$ peakproof explain out it | grep -c 'per-rank/'
> 4

$ peakproof explain --json out one/it | grep -c '"id": "terms"'
> 8

$ peakproof explain out ti
= 2
!* *no case 'ti' (did you mean 'it'?)*

$ peakproof explain out
= 2
!* *

$ peakproof run --out new one.lua >a; peakproof compare --check out new
> # peakproof: two runs
>
>* | run *| commit *| scenarios *| settings *| command *|
>* |-*|
>* | `out` *one.lua` *| — *| `peakproof run one.lua` *|
>* | `new` *one.lua` *| — *| `peakproof run --out new one.lua` *|
>
> 1 cases the same, 0 changed (0 figures beside those above), 0 only in the old
> run, 0 only in the new.

$ peakproof run --out new one.lua -- len=3001 >a; peakproof compare --check out new >b
= 4
!* *out and new differ in 1 cases*

$ grep -c 'one/it.*peak, total' b
> 2
$ grep -c '^| .new. .* .len=3001. ' b
> 1

# An estimator that one run alone has changes no case; one that a case has no
# more does.

+ more.lua
| return {name = "one", cases = {{name = "it", model = "Qwen3.6-35B-A3B",
|   layers = 4, cp = 2, batch = batch.lengths{3000, 1500},
|   estimators = {"busiest-rank", "per-rank", "per-rank-any", "heuristic"}}}}
$ sed 's/, "heuristic"//' more.lua >less.lua; peakproof run --out less less.lua >a; peakproof run --out more more.lua >a; peakproof compare --check less more | grep -v '^|'
> # peakproof: two runs
>
>
> heuristic is in the new run alone: not compared.
>
> 1 cases the same, 0 changed (0 figures beside those above), 0 only in the old
> run, 0 only in the new.
$ peakproof compare --check more less | grep -c '^heuristic is in the old run alone'
> 1
# several, in the order in which the run has them
$ sed 's/"per-rank", .*/"per-rank", "retained-rank", "heuristic", "retained-flat", "kept-rank"}}}}/' more.lua >most.lua; peakproof run --out most most.lua >a; peakproof compare less most | grep alone
> per-rank-any is in the old run alone: not compared.
> retained-rank is in the new run alone: not compared.
> heuristic is in the new run alone: not compared.
> retained-flat is in the new run alone: not compared.
> kept-rank is in the new run alone: not compared.
$ peakproof compare --json less more | grep -c '"id": "runs"'
> 1

# a run that was killed: what is told is told of the cases that are there
$ cp -r less cut; sed -i 's/"finished": true/"finished": false/' cut/run.json; peakproof report cut | sed -n 1p; for f in accuracy timing; do sed -n 3,4p cut/$f.md; done
> cut/accuracy.md
> The run in this folder is not finished; what follows covers the cases that are.
>
> The run in this folder is not finished; what follows covers the cases that are.
>
! peakproof: warning: cut: the run is not finished: what is written covers the cases that are (run --resume goes on)
$ cp -r less both; cp -r cut both/sweep; for d in cut both both/sweep; do peakproof report --json $d 2>said | grep -o '"[a-z_]*finished": [a-z]*'; cat said; done
> "finished": false
> "sweep_finished": null
> peakproof: warning: cut: the run is not finished: what is written covers the cases that are (run --resume goes on)
> "finished": true
> "sweep_finished": false
> peakproof: warning: both/sweep: the run is not finished: what is written of it covers the cases that are
> "finished": false
> "sweep_finished": null
> peakproof: warning: both/sweep: the run is not finished: what is written covers the cases that are (run --resume goes on)
$ peakproof explain cut it | sed -n 3p; peakproof explain less it | grep -c finished
> The run in `cut` is not finished; this case is.
> 0
= 1
$ peakproof compare less cut | sed -n 3p; peakproof compare cut less | sed -n 3p; peakproof compare cut cut | sed -n 3p; peakproof compare less less | grep -c finished
> The new run is not finished: cases that it lacks may be to come.
> The old run is not finished: cases that it lacks may be to come.
> The runs are not finished: cases that one of them lacks may be to come.
> 0
= 1

# a record that was tampered with
$ sed -i 's/,peak,total,[0-9]*,/,peak,total,12x,/' new/records.csv; peakproof report new
= 3
!* *new/records.csv:*: bytes: '12x' is not a whole number*
