# A wave against a device. Weights of the 35B in bf16: 69,321,221,376 bytes at
# EP1, 37,108,966,656 at EP2.

$ peakproof fit --memory 80G --lengths 20000,9000 --ep 2
> device memory, bytes            80,000,000,000
> kept free (3 percent)            2,400,000,000
> weights                         37,108,966,656
> adapters                           480,542,720
> optimizer moments                1,922,170,880
> left for a wave                 38,088,319,744
> tokens of the wave                      29,000
>
> estimator    wave   held gradients        admitted   needed in all          margin        token budget
> busiest-rank later     480,542,720   8,639,802,067  48,632,025,043  28,967,974,957 fits        129,921
> per-rank     later     480,542,720   8,321,454,394  48,313,677,370  29,286,322,630 fits        133,239
> per-rank-any later     480,542,720   7,328,825,996  47,321,048,972  30,278,951,028 fits        152,323
> needed: weights, adapters, moments, held gradients, admitted

# A row adds up, and tells which of the two waves it is.

$ peakproof fit --memory 80G --lengths 20000,9000 --ep 2 | tr -d , | awk '/^weights|^adapters|^optimizer/ {held += $NF} /^per-rank/ {print held + $3 + $4 - $5, $2}'
> 0 later
> 0 later
$ peakproof fit --memory 80G --lengths 20000,9000 --ep 2 --layers 4 | tr -d , | awk '/^weights|^adapters|^optimizer/ {held += $NF} /^per-rank/ {print held + $3 + $4 - $5, $2}'
> 0 first
> 0 first
$ peakproof fit --memory 80G --lengths 20000,9000 --ep 2 --json | grep -c '"wave": "later"'
> 3

# The budget is where it stops to fit: of one sequence, to the token.

+ budget.sh
| b=$(peakproof fit --json --memory $1 --lengths 8000 | sed -n 's/.*token_budget": \([0-9]*\).*/\1/p' | sed -n ${2}p)
| for n in $b $((b + 1)); do
|     peakproof fit --json --memory $1 --lengths $n | sed -n 's/.*"fits": \([a-z]*\).*/\1/p' | sed -n ${2}p
| done
$ sh budget.sh 90G 1; sh budget.sh 90G 2; sh budget.sh 79G 2
> true
> false
> true
> false
> true
> false

# What to cut: tokens, or what stays between waves.

$ peakproof fit --memory 80G --lengths 40000 >a; grep -E 'cut|NO' a
>* busiest-rank * -*,???,???,??? NO *
>* per-rank * -*,???,???,??? NO *
>* per-rank-any * -*,???,???,??? NO *
>* cut: waves of this shape fit up to ?*,??? tokens (or more --cp or --ep)
$ peakproof fit --memory 60G --lengths 100 | grep -E 'cut|left'
> left for a wave                -15,830,802,176
> cut: what a rank holds between waves does not fit (more --ep, fewer --layers, a smaller --lora-rank)
$ peakproof fit --memory 60G --lengths 100 --json | grep -c '"token_budget": 0'
> 3

# Facts as they stand; a later wave has its gradients allocated.

$ peakproof plan --lengths 2047 --facts | peakproof fit --memory 80G --json - | grep gradient
>       "gradient_bytes": 0,
>       "gradient_bytes": 0,
>       "gradient_bytes": 0,
$ peakproof plan --lengths 2047 --facts --warm >f; peakproof fit --memory 80G --json f | grep -E 'gradient|"adapter'
>   "adapter_bytes": 941916160,
>       "gradient_bytes": 941916160,
>       "gradient_bytes": 941916160,
>       "gradient_bytes": 941916160,

# Where per-rank does not apply the bytes are busiest-rank's; under TP nothing
# is known.

$ peakproof fit --memory 141G --lengths 9000,9000 --cp 4 | tail -n 3 | head -n 2
>*              (as busiest-rank: *
>* per-rank-any *fits*
$ sed 's/"tp": 1/"tp": 2/' f >t; peakproof fit --memory 80G t | tail -n 3
>* busiest-rank not priced: *
>* per-rank     not priced: *
>* per-rank-any not priced: *
$ peakproof fit --memory 80G --json t | grep -c '"fits": null'
> 3

# Mistakes.

$ peakproof fit --lengths 5
! peakproof: fit needs the device's memory (--memory 80G)
= 2
$ peakproof fit --memory 80
! peakproof: nothing to plan (give --lengths, --tree or --sequences)
= 2
$ peakproof fit --memory 80X --lengths 5
!* peakproof: fit: --memory*80X*
= 2
$ peakproof fit --memory 80G --lengths 5 f
! peakproof: facts and the options of a plan exclude each other
= 2
$ peakproof fit --memory 80G none.json
! peakproof: none.json: No such file or directory
= 3
$ peakproof fit --memory 9000000T --lengths 5 --layers 4 | grep -c 2,147,483,647
> 3
