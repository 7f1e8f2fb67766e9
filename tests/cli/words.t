# What a user types almost right.

+ opt.lua
| return {
|   name = "opt",
|   options = {n = {help = "a number", default = 1.0}},
|   cases = function(opt)
|     return {{name = "a", model = "tiny", batch = batch.lengths{300}}}
|   end,
| }

# A scenario by the name that "list" prints; one that is not there.

$ peakproof run --only real-40 pr-accuracy | cut -d ' ' -f 1 | sort -u
> 1
> case
> pr-accuracy/real-40
$ peakproof run opt | cut -d ' ' -f 1 | sort -u
> 1
> case
> opt/a
$ peakproof run pr-acuracy.lua
!* peakproof: pr-acuracy.lua: No such file or directory, here or in */scenarios (did you mean pr-accuracy.lua? peakproof list names those)
= 3
$ peakproof run pr-acuracy
!* peakproof: pr-acuracy: No such file or directory, here or in */scenarios (did you mean pr-accuracy? peakproof list names those)
= 3
$ peakproof list pr-acc
!* peakproof: pr-acc: No such file or directory, here or in */scenarios (did you mean pr-accuracy? peakproof list names those)
= 3
$ peakproof run nothing-like-it
!* peakproof: nothing-like-it: No such file or directory, here or in */scenarios (peakproof list names those)
= 3
$ peakproof run opt.lua n=3
! peakproof: n=3: no scenario (options come last, after --: ... -- n=3)
= 2

# A default of 1.0 makes a number, not an integer.

$ peakproof run opt.lua -- n=1.5 >table

# What is suggested is near, or nothing is.

$ peakproof run opt.lua -- m=3
!* peakproof: opt.lua: unknown option 'm' (peakproof list * shows them)
= 2
$ peakproof run --device gpu opt.lua
! peakproof: run: --device: unknown value 'gpu' (one of dry, cpu, cuda)
= 2
$ sed 's/"tiny"/"Qwen3.6-35B"/' opt.lua >near.lua; peakproof run near.lua
!* peakproof: near.lua:*: case 'a': model: no file 'Qwen3.6-35B' (did you mean 'Qwen3.6-35B-A3B'?)
= 3

# Bytes and tokens.

$ peakproof fit --memory 80 --lengths 2000
! peakproof: fit: --memory: '80' are bytes, too few for a device (say 80G)
= 2
$ peakproof fit --memory 1000k --lengths 2000
! peakproof: fit: --memory: '1000k' are bytes, too few for a device (say 80G)
= 2
$ peakproof fit --memory H100 --lengths 2000
! peakproof: fit: --memory: 'H100' is not a number of bytes (as in 80G, 72.5GB or 80Gi)
= 2
$ peakproof fit --memory 80GB --lengths 2k >a; peakproof fit --memory 80.0G --lengths 2000 >b; cmp a b
$ peakproof plan --lengths 64k | grep tokens
>   "tokens": 64000,
$ peakproof plan --lengths 1.5k
! peakproof: --lengths: '1.5k' is not a number of tokens (1 to 2147483647, as in 64k,9000)
= 2

# run.json's command can be pasted; a reader that has seen enough is no error.

$ peakproof run --only 'a*' --out "it's" opt.lua >table; grep command it*/run.json
>*   "command": "peakproof run --only 'a?' --out 'it'*''s' opt.lua",
$ eval "$(sed -n 's/.*"command": "\(.*\)",$/\1/p' "it's/run.json" | sed 's/\\\\/\\/g')" >again; cmp table again
$ { sleep 0.2; peakproof help run; echo $? >code; } | true; cat code
> 1

# A header of 60,000 columns takes no time; a stack too small says so.

$ (seq -s , -f 'c%g' 60000; seq -s , 60000) >wide.csv; timeout 2 peakproof plan --sequences wide.csv
!* peakproof: wide.csv:1: no column *
= 3
$ (ulimit -Ss 100; peakproof version >/dev/null)
$ (ulimit -s 100; peakproof version)
! peakproof: a stack of 102400 bytes is too small (ulimit -s 1024)
= 1

# 24 KiB are enough to say so, wherever in a page the kernel begins the stack
# (16 are in 98 of 100 tries; ASan needs more).
$ if grep -q __asan_init "$(command -v peakproof)"; then exit 1; fi; (ulimit -s 24; peakproof version) 2>said; code=$?; grep -q 'a stack of 24576 bytes is too small' said && exit $code
= 1

# UNDER is red on a terminal (test_base_terminal), and nowhere else.

+ low.lua
| estimator{name = "low", price = function() return {raw = 1000} end}
| return {name = "low", cases = {{name = "a", model = "tiny", batch = batch.lengths{300}}}}
$ TERM=xterm peakproof run low.lua | grep -c ' UNDER$'
> 1
