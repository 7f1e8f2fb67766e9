# A run removes and replaces what it wrote, and nothing else.

+ two.lua
| return {
|   name = "two",
|   cases = {
|     {name = "a", model = "Qwen3.6-35B-A3B", layers = 4, cp = 2,
|      batch = batch.lengths{3000}},
|     {name = "b", model = "Qwen3.6-35B-A3B", layers = 4, cp = 2,
|      batch = batch.lengths{4000}},
|   },
| }

# Files beside a run's own, under a run's kind of name, stay; also where the
# folder was no run's before.

$ mkdir -p own/misses; echo 1 >own/misses/a.json; echo 2 >own/histograms
$ peakproof run --misses 0 --out own two.lua >table; ls own/misses
> a.json
> two.a.wave0.json
> two.b.wave0.json
$ peakproof run --misses 1e6 --out own two.lua >table; ls own/misses; cat own/misses/a.json own/histograms
> a.json
> 1
> 2

# One that stands where the run would write is not replaced.

$ echo 3 >own/misses/two.b.wave0.json; peakproof run --misses 0 --out own two.lua >table
! peakproof: own/misses/two.b.wave0.json: is there already, and not of a run (remove it, or choose another folder)
= 2
$ cat own/misses/two.b.wave0.json; ls own/misses
> 3
> a.json
> two.a.wave0.json
> two.b.wave0.json
$ rm own/misses/two.b.wave0.json; peakproof run --resume --misses 0 --out own two.lua >table; ls own/misses; grep files own/run.json
> a.json
> two.a.wave0.json
> two.b.wave0.json
>   "files": ["misses/two.a.wave0.json", "misses/two.b.wave0.json"],

# No link is followed: not to delete, not to write, not to append.

$ mkdir foreign; mv own/misses foreign; ln -s ../foreign/misses own/misses; peakproof run --misses 1e6 --out own two.lua >table; ls foreign/misses
> a.json
> two.a.wave0.json
> two.b.wave0.json
$ rm foreign/misses/two.*; peakproof run --misses 0 --out own two.lua >table
! peakproof: own/misses: a link, where a run writes a folder (remove it, or choose another folder)
= 2
$ ls foreign/misses
> a.json
$ rm own/misses; peakproof run --misses 0 --out own two.lua >table; mv own/misses/two.a.wave0.json x; ln -s ../../x own/misses/two.a.wave0.json; cp x y; peakproof run --misses 1e6 --out own two.lua >table; cmp x y; ls own/misses
> two.a.wave0.json
$ echo text >z; ln -sf ../z own/records.csv; peakproof run --out own two.lua
! peakproof: own/records.csv: not a regular file, which a run writes (choose another folder)
= 2
$ rm own/records.csv; ln -sf ../z own/run.json; peakproof run --out own two.lua
! peakproof: own/run.json: not a regular file, which a run writes (choose another folder)
= 2
$ cat z; rm -r own; ln -s ../z run.json.tmp; mkdir own; ln -s ../z own/run.json.tmp; ln -s ../z own/accuracy.md; peakproof run --out own two.lua >table; peakproof report own >table; cat z; ls -A own | grep -c peakproof
> text
> text
> 0
= 1

# What the list of a changed run.json names elsewhere is left alone.

$ sed -i 's|"files": .*|"files": ["../z", "misses/../../z", "/etc/x", "z", "histograms/..", 7],|' own/run.json; echo 1 >own/z; peakproof run --out own two.lua >table; cat z own/z
> text
> 1

# A backup by hard links keeps its bytes; rows without a run.json are no run's.

$ cp -al own backup; cp -r own copy; peakproof run --out own two.lua
! peakproof: own/run.json: has another name too (a hard link), whose bytes would change (choose another folder)
= 2
$ rm own/run.json; peakproof run --out own two.lua
! peakproof: own/records.csv: has another name too (a hard link), whose bytes would change (choose another folder)
= 2
$ rm -r own; cp -r backup own; rm own/run.json; peakproof run --out own two.lua
! peakproof: own/records.csv: no run.json beside it says that it is a run's (choose another folder, or remove it)
= 2
$ diff -r copy backup

# What a run reads may not lie where it writes.

+ reads.lua
| return {
|   options = {file = {help = "lengths", type = "string", default = "l.csv"}},
|   cases = function(opt)
|     return {{name = "a", model = "tiny",
|              batch = batch.sequences{file = opt.file}}}
|   end,
| }
$ peakproof run --device cpu --histograms --only ragged.cp2.ep2 --out h tiny-cpu.lua >table
+ replay.lua
| return {cases = {{name = "a", model = "tiny", dtype = "f32", cp = 2, ep = 2,
|   lora_rank = 4, waves = 2, batch = batch.lengths{1, 70, 133},
|   routing = {histogram = "h/histograms/tiny-cpu.ragged.cp2.ep2.csv"}}}}
$ cp -r h h.before; peakproof run --out h replay.lua
!* peakproof: run: *h/histograms/tiny-cpu.ragged.cp2.ep2.csv: the run reads it, and it lies in the folder h, which the run writes (choose another --out)
= 2
$ ln -s h other; peakproof run --resume --out other/ replay.lua
!* peakproof: run: *.csv: the run reads it, and it lies in the folder other/, which *
= 2
$ diff -r h h.before; peakproof run --out h2 replay.lua >table

# Only regular files are read: a FIFO would be waited for.

$ mkfifo pipe; mkdir weights; mkfifo weights/x.safetensors
$ timeout 10 peakproof run --out p pipe
! peakproof: pipe: not a regular file
= 3
$ timeout 10 peakproof price pipe
! peakproof: pipe: not a regular file
= 3
$ sed 's/lora_rank/weights = "weights", lora_rank/' replay.lua >w.lua; timeout 10 peakproof run --device cpu --out p w.lua >table
! peakproof: w/a: weights/x.safetensors: not a regular file
= 3
$ timeout 10 peakproof replay pipe
!* peakproof: *pipe: not a regular file*
= 3

# Files of a case lie in folders of any name; records have what a terminal may
# see of it.

$ d="$(printf 'a\033\nb')"; mkdir "$d" "$d/w"; echo '{"tokens": [1, 2, 3]}' >"$d/l.jsonl"; cp $TOP/lua/models/tiny.json "$d/m.json"
+ odd.lua
| local d = "a\27\nb/"
| return {cases = {{name = "a", model = d .. "m.json", weights = d .. "w",
|   adapters = d .. "w", labels = d .. "l.jsonl", batch = batch.lengths{3}}}}
$ peakproof run --out odd odd.lua >table; cut -d , -f 1-3,13 odd/cases.csv
> device,scenario,case,weights
> dry,odd,a,a??b/w

# A number that was changed is noticed: its case and those after it run again.

$ rm -rf own; peakproof run --out own two.lua >table; cp -r own copy2; sed -i '/^dry,two,b,0,cold,max,peak,total,/s/,[0-9]*,ok/,1,ok/' own/records.csv; cmp own/records.csv copy2/records.csv >cmp
= 1
$ peakproof run --resume --out own two.lua | cut -d ' ' -f 1 | sort -u
> 2
> case
> two/b
! peakproof: warning: run: own: the rows of case dry,two,b are not those that were written: it and those after it run again
$ for f in records peaks cases inventory; do cmp own/$f.csv copy2/$f.csv; done
$ sed -i '/^dry,two,a,/s/,3000,1,/,3001,1,/' own/cases.csv; peakproof run --resume --out own two.lua >table; cmp own/cases.csv copy2/cases.csv
! peakproof: warning: run: own: the rows of case dry,two,a are not those that were written: it and those after it run again
$ sed -i '/^dry,two,a,0,cold,0,/s/recompute/backward/' own/peaks.csv; printf "rank,allocated_bytes,requested_bytes,reserved_bytes\n0,50000000,9,9\n1,50000000,9,9\n" >p.csv; peakproof import own --peaks p.csv --case two/a
! peakproof: own: case dry,two,a has other rows than the run wrote (run it again)
= 3

# Reports of one folder, at once, and of one that a run is starting in.

$ for i in 1 2 3 4; do peakproof report copy2 >r$i 2>&1 & done; wait; cmp r1 r2; cmp r1 r3; cmp r1 r4; grep -c accuracy.md r1
> 1
$ mkdir new; : >new/records.csv; head -c 9 copy2/peaks.csv >new/peaks.csv; peakproof report new >said; ls new
! peakproof: warning: new: no finished case, so there is nothing to report
> peaks.csv
> records.csv
$ cp -r copy2 old; head -c 9 copy2/cases.csv >old/cases.csv; peakproof report old
! peakproof: old/cases.csv:1: column 2 must be 'scenario' (it has device,sc)
= 3
$ flock old/records.csv peakproof report old >said; : >old/cases.csv; flock old/records.csv peakproof report old >said
! peakproof: warning: old: no finished case, so there is nothing to report
! peakproof: warning: old: no finished case, so there is nothing to report
$ cp copy2/cases.csv old; flock old/records.csv peakproof report old >said; grep -c accuracy said
> 1
$ sed -i 's/"finished": true/"finished": false/' old/run.json; printf 'dry,two,c,0,co' >>old/records.csv; peakproof report old >said; grep -c accuracy said
> 1
! peakproof: warning: old: the run is not finished: what is written covers the cases that are (run --resume goes on)
$ sed -i 's/"finished": false/"finished": true/' old/run.json; peakproof report old
! peakproof: old/records.csv:860: 5 cells where the header has 11
= 3
$ mkdir none; peakproof report none
! peakproof: none: no run there (peakproof run --out none writes one)
= 3
$ cp copy2/*.csv none; rm none/losses.csv; peakproof report none
! peakproof: none/losses.csv: No such file or directory
= 3
