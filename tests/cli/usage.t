# Commands, options and help: usage errors are one line and exit code 2.

$ peakproof
! peakproof: no command (see peakproof --help)
= 2

$ peakproof halp
! peakproof: unknown command 'halp' (did you mean 'help'?)
= 2

$ peakproof frobnicate
! peakproof: unknown command 'frobnicate' (see peakproof --help)
= 2

$ peakproof --frob
! peakproof: unknown option '--frob' (options follow the command; see peakproof --help)
= 2

$ peakproof version --jsno
! peakproof: version: unknown option '--jsno' (did you mean '--json'?)
= 2

$ peakproof version -x
! peakproof: version: unknown option '-x' (see peakproof version --help)
= 2

$ peakproof version --json=yes
! peakproof: version: option '--json' takes no value (see peakproof version --help)
= 2

$ peakproof version now
! peakproof: version: unexpected 'now' (see peakproof version --help)
= 2

$ peakproof version -- now
! peakproof: version: unexpected 'now' (see peakproof version --help)
= 2

$ peakproof help exit-cods
! peakproof: help: unknown topic 'exit-cods' (did you mean 'exit-codes'?)
= 2

$ peakproof help exit-codes
>   0  ok
>   1  the run failed, or a file could not be read or written
>   2  usage: unknown command, option or value
>   3  a bad input file: scenario, config, CSV, facts, snapshot
>   4  a check failed (run --check, compare --check)
>   5  device not available
>   6  out of memory in the workload (also a record)
>   7  wrong numbers: a loss that is not finite, or allocations or peaks that are
>      not those of the dry device
> 130  interrupted; finished cases are kept (run --resume goes on)
>
> When several cases fail, the first failed case's code counts.

# Help goes to standard output and is the same by every way.

$ peakproof --help
> usage: peakproof COMMAND [options] [operands]
>...

$ peakproof --help >a; peakproof help >b; peakproof -h >c; cmp a b && cmp a c
$ peakproof version --help >a; peakproof help version >b; cmp a b

$ peakproof help help
> usage: peakproof help [TOPIC] [--json]
>
> Prints the list of commands, or the help of one command or topic. Topics:
> exit-codes, environment, files, terms, models, scenarios, batch, estimators,
> snapshots; and man and bash-completion, of which make install makes files.
>
> Options:
>       --json              print the result as JSON
>   -h, --help              print this help
>
> Exit codes:
>     0  ok
>     2  usage: unknown command, option or value
>
> Examples:
>   peakproof help
>   peakproof help run
>   peakproof help models

# Every command and topic has help of at most 80 columns, and JSON parses.

$ for c in $(peakproof --help | sed -n 's/^  \([a-z]*\) .*/\1/p') exit-codes environment files terms models scenarios batch estimators snapshots; do peakproof help $c || echo bad $c; done | awk 'length > 80'
$ peakproof help --json >a; head -n 3 a
> {
>   "format": 1,
>   "commands": [

$ peakproof help exit-codes --json
> {
>   "format": 1,
>   "topic": "exit-codes",
>* *"text": "*130  interrupted*
> }

$ peakproof version
>* peakproof [0-9]*.[0-9]*.[0-9]* (*)
>* Lua 5.4*
>* jansson *
>* libcsv *
>* compiler *

$ peakproof --version >a; peakproof version >b; cmp a b

$ peakproof version --json
> {
>   "format": 1,
>* *"release": "[0-9]*.[0-9]*.[0-9]*",
>* *"version": "*
>* *"lua": "Lua 5.4*
>* *"jansson": *
>* *"compiler": *
> }

# A full disk and a reader that went away are told.

$ peakproof help >/dev/full
! peakproof: cannot write standard output: No space left on device
= 1

$ { sleep 0.2; peakproof help; echo $? >code; } | true; cat code
> 1

# Man page and completion: every command, option and fixed value stands in both.

$ peakproof help man >page; sed 's/\\//g' page >words; peakproof help bash-completion >bash
$ peakproof help --json | sed -n 's/^      "name": "\(.*\)",/SS \1/p; s/^          "name": "\(.*\)",/--\1/p' >names; wc -l <names >count; test $(cat count) -gt 100
$ grep -v '^SS' names | sort -u | while read o; do grep -qF -- "fB$o" words || echo "man: $o"; grep -qE -- "$o[ ']" bash || echo "bash: $o"; done
$ grep '^SS' names | while read s c; do grep -qx ".SS $c" page || echo "man: $c"; grep -q "^    $c,-" bash || echo "bash: $c"; done
$ grep -c '^\.' page >macros; grep '^[.]' page | cut -c 1-3 | sort -u | tr -d '\n'; echo
> .B .BR.I .PP.SH.SS.TH.TP.fi.nf
+ complete.sh
| source ./bash
| for line in 're' 'run --dev' 'run --device ' 'run pr-' 'help est' 'report --format h' 'list sw'; do
|     COMP_WORDS=(peakproof $line) COMPREPLY=()
|     case $line in *' ') COMP_WORDS+=('') ;; esac
|     COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
|     _peakproof
|     echo "$line: ${COMPREPLY[*]}"
| done
$ bash complete.sh
> re: report replay
> run --dev: --device
> run --device : dry cpu cuda
> run pr-: pr-accuracy-ep1 pr-accuracy
> help est: estimators
> report --format h: html
> list sw: sweep

# The shipped models.

$ peakproof list --models | sed -n '1p; /35B-A3B/p; /^tiny/p'
> model               family       layers       hidden  experts    bf16 GB
> Qwen3.5-35B-A3B     qwen3_5_moe  40 (30 GDN)    2048  8 of 256     69.32
> Qwen3.6-35B-A3B     qwen3_5_moe  40 (30 GDN)    2048  8 of 256     69.32
> tiny                qwen3_5_moe  4 (3 GDN)        64  2 of 8        0.00
$ peakproof list --models --json | sed -n '/3.6-35B/,/}/p'
>       "name": "Qwen3.6-35B-A3B",
>       "family": "qwen3_5_moe",
>       "layers": 40,
>       "gdn_layers": 30,
>       "hidden": 2048,
>       "experts": 256,
>       "top_k": 8,
>       "max_positions": 262144,
>       "weight_bytes": 69321221376
>     },
$ peakproof list --models sweep
! peakproof: list: --models takes no scenario
= 2
$ peakproof help families
! peakproof: help: unknown topic 'families' (see peakproof help)
= 2
$ for f in $(peakproof help models | sed -n 's/^\([a-z0-9_]*\)  *attention.*/\1/p'); do echo $f; done | wc -l
> 10
$ peakproof help estimators | grep -c '^[a-z0-9-]*  '
> 12

# The summary of scenarios has every key that a case takes.

+ keys.lua
| return {cases = {{name = "a", model = "tiny", zzz = 1}}}
$ peakproof list keys.lua 2>said; peakproof help scenarios >topic; for key in $(sed -n 's/.*known: \(.*\)).*/\1/p' said); do echo "$key" >>keys; grep -qw -- "$key" topic || echo "$key"; done; test $(wc -l <keys) -gt 30
