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
> exit-codes, environment, files, terms, scenarios, snapshots.
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
>   peakproof help exit-codes

# Every command and topic has help of at most 80 columns, and JSON parses.

$ for c in $(peakproof --help | sed -n 's/^  \([a-z]*\) .*/\1/p') exit-codes environment files terms scenarios; do peakproof help $c || echo bad $c; done | awk 'length > 80'
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
>* peakproof *
>* Lua 5.4*
>* jansson *
>* libcsv *
>* compiler *

$ peakproof --version >a; peakproof version >b; cmp a b

$ peakproof version --json
> {
>   "format": 1,
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
