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

$ awk -F, 'NR > 1 {d = $6 / ($4 == 0 ? 6.13842141 : 5.27983964) - 1; if (d * d > ($4 == 0 ? 1e-12 : 1e-6)) print}' cpu/losses.csv
$ peakproof run --device cpu --out again -j 2 --only 'ragged.cp*' tiny-cpu.lua >table; for f in records peaks cases losses; do cmp cpu/$f.csv again/$f.csv; done

# Each rank took and freed on cpu what it takes and frees on dry, with the
# routes that were seen; saved, they give dry the same peaks.

$ grep -c '^same-as-dry,3,0,0,0,' cpu/checks.csv
> 1
$ peakproof run --device cpu --histograms --out h --only 'fork.cp2.ep2' tiny-cpu.lua >table; ls h/histograms; head -n 2 h/histograms/*.csv; wc -l <h/histograms/tiny-cpu.fork.cp2.ep2.csv
> tiny-cpu.fork.cp2.ep2.csv
> wave,layer,rank,expert,rows
>* 0,0,0,0,*
> 129

+ again.lua
| return {
|   name = "tiny-cpu",
|   cases = {{
|     name = "fork.cp2.ep2", model = "tiny", dtype = "f32", seed = 1, cp = 2,
|     ep = 2, lora_rank = 4, waves = 2, learning_rate = 0.01,
|     batch = batch.tree{parents = {-1, 0, 0, 1}, lengths = {70, 5, 133, 64}},
|     routing = {histogram = "h/histograms/tiny-cpu.fork.cp2.ep2.csv"},
|   }},
| }
$ peakproof run --out dry again.lua >table; cut -d , -f 2- h/peaks.csv >a; cut -d , -f 2- dry/peaks.csv | cmp - a
$ peakproof run --device cpu --out o again.lua >table; cmp o/losses.csv h/losses.csv; cmp o/peaks.csv h/peaks.csv

# An earlier run's histograms go with it; dry has no routes to keep.

$ cp h/histograms/*.csv kept.csv; sed 's:h/.*csv:kept.csv:' again.lua >kept.lua; peakproof run --device cpu --out h kept.lua >table; ls h/histograms
$ peakproof run --histograms again.lua
! peakproof: run: --histograms: device dry has no router (use --device cpu)
= 2

# Estimators change neither losses nor peaks.

+ none.lua
| estimator{name = "none", price = function() return {raw = 1} end}
$ peakproof run --device cpu --estimator none.lua --out e kept.lua >table; cmp o/losses.csv e/losses.csv; cmp o/peaks.csv e/peaks.csv; grep -c ',none,' e/records.csv
> 38

# Where routing moves no rows between ranks, peaks are those of dry.

$ peakproof run --out dry --only 'ragged.*ep1' tiny-cpu.lua >table; grep 'ep1' cpu/peaks.csv | cut -d , -f 2- >a; sed 1d dry/peaks.csv | cut -d , -f 2- | diff - a

# Estimates are of bf16; at another dtype they are refused, in words.

$ peakproof run --device cpu --out o --only ragged.cp2.ep2 tiny-cpu.lua | sed 's/^.*ragged.cp2.ep2 //'
>* case *
>* *0 cold * no estimates: dtype f32: priced in bf16 only
>* *1 warm *[0-9]
> 1 case: 0 out of memory, 0 refused, 0 failed
$ grep -c ',raw,,refused,dtype f32: priced in bf16 only$' o/records.csv; grep -c ',\(raw\|admitted\),[0-9]' o/records.csv
> 6
> 0
= 1
$ peakproof run --json --out o --only ragged.cp2.ep2 tiny-cpu.lua | grep -c '"raw_bytes": null'
> 6
$ sed 's/"f32"/"bf16"/' kept.lua >bf16.lua; peakproof run --out o bf16.lua >table; grep -c ' refused:' table; wc -l <table
> 0
> 8

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
!* peakproof: t/a: by the dry device: rank *: out of device memory: * requests * B; *the dry device has 150000000 B, * B of them taken*
= 6
$ sed -n 's/.*,\(oom\|ok\),.*/\1/p' o/cases.csv
> oom

# What no machine holds is refused before any of it is touched.

+ huge.lua
| return {cases = {{name = "a", model = "Qwen3.6-35B-A3B", cp = 64,
|                   batch = batch.lengths{6400}}}}
$ peakproof run --device cpu --out o huge.lua >table
!* peakproof: huge/a: device cpu: 64 ranks need * bytes, up to * each, and * are free (use fewer layers or tokens, or --device dry)
= 6
$ grep -c ',oom,' o/cases.csv
> 1
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
!* peakproof: t/a: short.txt: holds 5 tokens, the batch takes 50 (use a longer file or a smaller batch)
= 3
$ (printf '\357\273\277'; cat same.ids) >mark.ids; peakproof run --device cpu --out i tiny.lua -- key=tokens value=mark.ids >table; cmp b/losses.csv i/losses.csv
$ yes 48000 | head -n 50 >big.ids; peakproof run --device cpu --out o tiny.lua -- key=tokens value=big.ids >table
!* peakproof: t/a: big.ids: token 0, near line 1, is '48000', not a number from 0 to 255 (vocab_size)
= 3
$ yes x | head -n 50 >bad.ids; peakproof run --device cpu --out o tiny.lua -- key=tokens value=bad.ids >table
!* peakproof: t/a: bad.ids: token 0, near line 1, is 'x', not a number from 0 to 255 (vocab_size)
= 3

# Adapters out and in: a run that goes on is the run that never stopped.

+ more.lua
| return {options = {waves = {default = 3}, adapters = {default = "", type = "string"}},
|   cases = function(o) return {{
|     name = "a", model = "tiny", layers = 2, dtype = "f32", cp = 2, ep = 2,
|     lora_rank = 2, batch = batch.lengths{30, 20}, waves = o.waves,
|     learning_rate = 0.01,
|     adapters = o.adapters ~= "" and o.adapters or nil,
|   }} end}
$ peakproof run --device cpu --out o --save-adapters all more.lua >table
$ peakproof run --device cpu --out o --save-adapters one more.lua -- waves=1 >table
$ peakproof run --device cpu --out o --save-adapters two more.lua -- waves=2 adapters=one >table
$ cmp all/adapter_model.safetensors two/adapter_model.safetensors; cmp all/optimizer.safetensors two/optimizer.safetensors
$ ls all
> adapter_config.json
> adapter_model.safetensors
> optimizer.safetensors
$ sed 's/"r": 2/"r": 4/' all/adapter_config.json >one/adapter_config.json; peakproof run --device cpu --out o more.lua -- adapters=one >table
!* peakproof: more/a: one/adapter_config.json: r: is 4, but the case has lora_rank 2 (set lora_rank = 4)
= 3
$ rm one/adapter_config.json; peakproof run --device cpu --out o more.lua -- adapters=one >table
!* peakproof: more/a: one/adapter_config.json: No such file or directory
= 3
$ peakproof run --out o --save-adapters all more.lua
!* peakproof: run: --save-adapters: device dry learns nothing (use --device cpu)
= 2

# Labels from a file: a packed tree has the loss of its sequences.

+ tree.lua
| return {options = {tree = {default = true}, labels = {default = "l.jsonl"}, cp = {default = 1},
|                    loss = {default = "mean"}, key = {default = "about"}},
|   cases = function(o) return {{
|     name = "a", model = "tiny", layers = 4, dtype = "f64", lora_rank = 2,
|     cp = o.cp, ep = o.cp, learning_rate = 0.01, waves = 2,
|     batch = o.tree and batch.tree{parents = {-1, 0, 0, -1}, lengths = {3, 2, 4, 5}}
|             or batch.lengths{5, 7, 5},
|     labels = o.labels, loss = o.loss, [o.key] = o.key == "head_rows" and 3 or "license.txt",
|   }} end}
+ l.jsonl
| {"tokens":[1,2,3,4,5],"weight":0.5}
| {"tokens":[1,2,3,7,8,9,10],"mask":[0,0,1,1,1,true,1],"weights":[1,1,1,2,1,1,0.25]}
| 
| {"tokens":[11,12,13,14,15],"segment":3}
+ flat.jsonl
| {"tokens":[1,2,3,4,5],"weight":0.5}
| {"tokens":[1,2,3,7,8,9,10],"mask":[0,0,1,1,1,true,1],"weights":[1,1,1,2,1,1,0.25]}
| {"tokens":[11,12,13,14,15]}
$ for a in tree=true 'tree=false labels=flat.jsonl' cp=2; do peakproof run --device cpu --out o tree.lua -- $a >table; sed -n 's/.*,\([0-9.]\{14\}\)[0-9]*$/\1/p' o/losses.csv >loss.$((i = i + 1)); done; cmp loss.1 loss.2; cmp loss.1 loss.3; wc -l <loss.1
> 2
$ (printf '\357\273\277'; cat l.jsonl) >mark.jsonl; peakproof run --device cpu --out o tree.lua -- labels=mark.jsonl >table; sed -n 's/.*,\([0-9.]\{14\}\)[0-9]*$/\1/p' o/losses.csv | cmp - loss.1
$ peakproof run --out o tree.lua >table; sed -n '2s/.*,\(ok\),.*/\1/p' o/cases.csv
> ok
$ sed 's/3,7,8/4,7,8/' l.jsonl >bad.jsonl; peakproof run --out o tree.lua -- labels=bad.jsonl >table
!* peakproof: tree/a: bad.jsonl:2: tokens?2?: is 4, but an earlier line has 3 in this row, which they share
= 3
$ sed 's/4,5/4/' l.jsonl >bad.jsonl; peakproof run --out o tree.lua -- labels=bad.jsonl >table
!* peakproof: tree/a: bad.jsonl:1: tokens: holds 4 tokens, the sequence that ends with segment 1 has 5
= 3
$ sed 's/"mask"/"masc"/' l.jsonl >bad.jsonl; peakproof run --out o tree.lua -- labels=bad.jsonl >table
!* peakproof: tree/a: bad.jsonl:2: *masc*did you mean 'mask'*
= 3
$ (cat l.jsonl; printf '\0{"tokens":[1]}\n') >bad.jsonl; peakproof run --out o tree.lua -- labels=bad.jsonl >table
!* peakproof: tree/a: bad.jsonl:5:1: not JSON: *
= 3
$ head -n 1 l.jsonl >bad.jsonl; peakproof run --out o tree.lua -- labels=bad.jsonl >table
!* peakproof: tree/a: bad.jsonl: no line goes through segment 2 of the batch
= 3
$ sed 's/0.5/-50/' l.jsonl >bad.jsonl; peakproof run --out o tree.lua -- labels=bad.jsonl >table
!* peakproof: tree/a: bad.jsonl: the weights of its * labels add up to -*, by which they cannot be divided (use loss = "sum")
= 3
$ peakproof run --out o tree.lua -- labels=bad.jsonl loss=sum >table
$ peakproof run --out o tree.lua -- key=tokens
!* peakproof: tree.lua:*: case 'a': tokens: labels holds the tokens already
= 3
$ peakproof run --out o tree.lua -- key=head_rows
!* peakproof: tree.lua:*: case 'a': head_rows: labels says already which rows have one
= 3

# The numbers of a wave, and as labels again.

$ peakproof run --device cpu --out o --dump d --dump-rows 0-2,9 tree.lua >table; ls d
> tree.a.wave0.safetensors
> tree.a.wave1.safetensors
$ head -c 4000 d/tree.a.wave0.safetensors | tr '{' '\n' | sed -n 's/^"dtype":"\([FI]64\)","shape":\(\[[0-9,]*\]\).*"\([a-z_]*\)":$/\1 \2 \3/p' | head -n 11
> F64 [1] tokens
> I64 [14] targets
> I64 [14] weights
> F64 [14] losses
> F64 [14] more_rows
> I64 [1] more_targets
> I64 [1] more_weights
> F64 [1] more_losses
> F64 [1] logit_rows
> I64 [4] logits
> F64 [4,256] routes
$ cp d/tree.a.wave0.safetensors l.safetensors; peakproof run --device cpu --out p tree.lua -- labels=l.safetensors loss=sum >table; cmp o/losses.csv p/losses.csv
$ peakproof run --device cpu --out p tree.lua -- labels=l.safetensors tree=false >table
!* peakproof: tree/a: *l.safetensors: tokens has shape ?14?, the model needs ?17?
= 3
$ peakproof run --out o --dump d tree.lua
!* peakproof: run: --dump: device dry computes no numbers (use --device cpu)
= 2
$ peakproof run --device cpu --out o --dump d --dump-rows 3-1 tree.lua
!* peakproof: run: --dump-rows: '3-1' is no list of up to 1024 rows as in 0,5-7
= 2

# A run says which kernels multiplied: the last digits of a loss are theirs.

$ peakproof doctor | sed -n 's/^cpu .*measured; //p' >blas; OPENBLAS_CORETYPE=Haswell peakproof run --device cpu --out b tiny.lua >table; grep -c '"OPENBLAS_CORETYPE": "Haswell"' b/run.json; peakproof run --device cpu --out b tiny.lua >table; sed -n 's/^    "blas": "\(.*\)",*$/\1/p' b/run.json | cmp - blas; peakproof run --out b tiny.lua >table; grep -c blas b/run.json
> 1
> 0
= 1

# Folders as transformers saves them, one in shards, one with a vision tower.

+ hf.lua
| return {options = {folder = {default = ""}}, cases = function(o) return {{
|   name = "a", model = o.folder .. "/config.json", weights = o.folder,
|   dtype = "f64", lora_rank = 0, tokens = o.folder .. "/t.ids",
|   batch = batch.lengths{9, 6},
| }} end}
$ for f in "$TOP"/tests/golden/hf/folders/*; do peakproof run --device cpu --out o hf.lua -- folder="$f" >table; awk -F, -v f="${f##*/}" 'NR == FNR {want = $1; next} FNR > 1 {d = $6 / want - 1; s = "off by " d; if (d * d < 1e-24) s = "agrees"; print f, s}' "$f/loss.txt" o/losses.csv; done
> llama agrees
> mixtral agrees
> qwen2_moe agrees
> qwen3 agrees
> qwen3_5_moe agrees
> qwen3_5_moe_text agrees
> qwen3_5_text agrees
> qwen3_moe agrees
> qwen3_next agrees

# Cases that never ran here are held beside nothing, and said to be.

$ peakproof run --device cpu --out never pr-accuracy.lua 2>said | tail -n 1; wc -l <said
> 3 cases: 0 out of memory, 3 refused, 0 failed
> 3
$ peakproof run --device cpu --out never pr-accuracy.lua >table 2>said
= 5
$ peakproof report never; sed -n '/^## Losses/,/^## Peak/p' never/cpu.md | grep '^[A-Z]'
> never/cpu.md
> never/timing.md
> None: no case here has computed one.
> No case ran to its end on this device, so none was held beside dry.
$ peakproof run --device cpu --out cpu --only ragged.cp1.ep1 tiny-cpu.lua >table; peakproof report cpu >files; tr '\n' ' ' <cpu/cpu.md | grep -o 'saw: in 1 of 1 such cases'
> saw: in 1 of 1 such cases

# Weights that are none are named, and not taken for a learning rate's doing:
# 276 numbers of the head, all NaN and then as large as a bf16 can be.

+ w.lua
| return {cases = {{name = "a", model = "w/config.json", weights = "w",
|   dtype = "f32", cp = 1, ep = 1, lora_rank = 2, waves = 1,
|   learning_rate = 0.01, tokens = "w/t.ids", batch = batch.lengths{3}}}}
$ cp -r $TOP/tests/golden/hf/folders/qwen3_5_moe w; cp w/model.safetensors keep; head -c 8 keep | od -An -t u8 | tr -d ' ' >header
$ head -c 552 /dev/zero | tr '\0' '\377' | dd of=w/model.safetensors bs=1 seek=$(($(cat header) + 8)) conv=notrunc 2>dd; peakproof run --device cpu --out w.out w.lua >table
! peakproof: w/a: rank 0: w/model.safetensors: lm_head.weight: element 0 is NaN, not a finite number
= 3
$ head -c 552 /dev/zero | tr '\0' '\177' | dd of=w/model.safetensors bs=1 seek=$(($(cat header) + 8)) conv=notrunc 2>dd; peakproof run --device cpu --out w.out w.lua >table
! peakproof: w/a: wave 0: the loss is not a finite number (no step came before it, and all weights are finite: a value overflows in the forward pass); the first output that is not finite: wave 0, head, no layer, head.logits (kernel gemm, rank 0)
= 7

# The largest bf16 everywhere: norms keep the forward pass finite, backward is
# not, and the step after it only hands that on.

$ cp -r $TOP/tests/golden/hf/folders/llama l; n=$(($(head -c 8 l/model.safetensors | od -An -t u8) + 8)); head -c 2352 /dev/zero | tr '\0' '\177' | dd of=l/model.safetensors bs=1 seek=$n conv=notrunc 2>dd; sed 's|w/|l/|; s|"w"|"l"|; s|w/t|l/t|; s/waves = 1/waves = 2/' w.lua >l.lua; peakproof run --device cpu --out l.out l.lua >table
! peakproof: l/a: wave 1: the loss is not a finite number (learning_rate is not why: a value overflows in wave 0, before the first step); the first output that is not finite: wave 0, head, no layer, head.norm_bwd (kernel rms_norm_bwd, rank 0)
= 7
