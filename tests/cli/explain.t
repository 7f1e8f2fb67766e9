# The timeline of a wave, from the run's own scenario.

+ one.lua
| return {
|   name = "one", options = {len = {help = "tokens", default = 3000}},
|   cases = function(opt)
|     return {{name = "it", model = "Qwen3.6-35B-A3B", layers = 4, cp = 2,
|              waves = 2, batch = batch.lengths{opt.len, opt.len}}}
|   end,
| }

$ peakproof run one.lua -- len=4000 >a
$ peakproof explain out it >plain; peakproof explain --plot p/t.svg out it >text; cmp plain text; ls p
> t.dat
> t.gp
> t.png
> t.svg
$ head -n 1 p/t.dat
> # event, GB of boundaries; attention; attention records; GDN; residual, norm; MoE dispatch, routing; MoE experts; shared expert; gradients; workspace, head; other

# The highest point and the peak of the most-loaded rank are one, to rounding.
$ awk -F, '$4 == 0 && $3 == "it" { if ($7 > m) { m = $7; e = $10 } } END { print e, m }' out/peaks.csv >peak
$ awk 'NR > 1 { s = 0; for (i = 2; i <= NF; i++) s += $i; if (s > m) { m = s; e = $1 } } END { print e, m }' p/t.dat >drawn
$ cat peak drawn | awk 'NR == 1 { e = $1; m = $2 / 1e9 } NR == 2 { print (e == $1), (m >= $2 && m < $2 * 1.001) }'
> 1 1
$ grep -c 'title "before, raw"\|title "after, raw"' p/t.gp
> 2
$ grep -o 'label 4 "peak [0-9.]* GB: [a-z]*, layer [0-3], [a-z0-9.]*"' p/t.gp | wc -l
> 1
$ peakproof explain --plot w.svg --wave 1 --rank 1 out it >text; grep -o 'wave 1, rank 1' w.gp
> wave 1, rank 1

# What cannot be drawn.
$ f=$(printf '%070d' 0); peakproof explain --plot $f.svg out it >text; ls $f.*g | wc -l
> 2
$ peakproof explain --plot t.png out it
! peakproof: explain: --plot: the picture is a file NAME.svg, of letters, digits and . _ -
= 2
$ peakproof explain --plot 'a`b.svg' out it
! peakproof: explain: --plot: the picture is a file NAME.svg, of letters, digits and . _ -
= 2
$ peakproof explain --plot t.svg --wave 2 out it
! peakproof: explain: --plot: it has no peak in wave 2, or no such rank
= 2
$ peakproof explain --wave 1 out it
! peakproof: explain: --wave and --rank say what --plot draws
= 2

# A scenario that has changed since, or is gone.
$ sed -i 's/layers = 4/layers = 5/' one.lua; peakproof explain --plot t.svg out it
!* peakproof: one/it: its peak on the dry device is * bytes, and * in the records (*)
= 3
$ sed -i 's/"it"/"that"/' one.lua; peakproof explain --plot t.svg out it
! peakproof: one/it: no longer a case of the scenario that made the records (run it again)
= 3
$ rm one.lua; peakproof explain --plot t.svg out it
!* peakproof: */one.lua: No such file or directory*
= 3
$ ls t.*
!* ls: *
= 2
