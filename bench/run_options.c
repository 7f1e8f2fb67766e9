/* run_options.c - the options of "peakproof run" and their help */
#include "bench/run_plain.h"
#include "run/device.h"

const struct command_option run_options[] = {
    {"device", 0, "NAME", "where the step runs (default: dry)",
     device_names, false},
    {"out", 'o', "DIR", "folder of the records (default: out)", NULL, false},
    {"only", 0, "GLOB", "only cases whose name, or SCENARIO/CASE, matches",
     NULL, false},
    {"jobs", 'j', "N", "run N cases at a time, each in a process of its own "
     "(default: 1, in this one)", NULL, false},
    {"estimator", 0, "FILE", "a Lua file with a further estimator", NULL,
     true},
    {"check", 0, NULL, "exit 4 when an estimate's raw error is outside its "
     "case's tolerance", NULL, false},
    {"histograms", 0, NULL, "write DIR/histograms/SCENARIO.CASE.csv: the rows "
     "that each rank sent to each expert, for routing = {histogram = FILE} "
     "on dry", NULL, false},
    {"save-adapters", 0, "DIR", "write each case's adapters after its last "
     "wave, and Adam's moments, in the format of peft: into DIR, or where "
     "there are several cases into DIR/SCENARIO.CASE", NULL, false},
    {"dump", 0, "DIR", "write each wave's numbers for comparison with other "
     "programs, DIR/SCENARIO.CASE.waveN.safetensors: losses and weights by "
     "row, logits, adapter gradients, experts chosen", NULL, false},
    {"dump-rows", 0, "LIST", "packed rows whose logits --dump writes, as in "
     "0,5-7 (default: 0)", NULL, false},
    {"resume", 0, NULL, "keep the finished cases of an interrupted run and "
     "go on", NULL, false},
    {"misses", 0, "PCT", "write DIR/misses/*.json for every wave whose "
     "peak is more than PCT percent of an estimate away from it, and for "
     "those that ran out of memory; peakproof price prices it again",
     NULL, false},
    {"snapshot", 0, "DIR", "write a PyTorch memory snapshot of every wave on "
     "every rank into DIR (docs.pytorch.org/memory_viz, peakproof replay, "
     "peakproof import)", NULL, false},
    {"totals", 0, NULL, "for many cases: records of sums alone and a summary; "
     "DIR/worst has all terms of the ten cases that each estimator is "
     "furthest under and over in, DIR/worst.lua the cases", NULL, false},
    {"shard", 0, "I/N", "only the I-th of N parts of the cases; merge puts "
     "them together", NULL, false},
    {"lengths", 0, "LIST", "instead of a scenario: every combination of the "
     "lists that follow, on one sequence of so many tokens (8k,16k or "
     "8k..64k:x2)", NULL, false},
    {"model", 0, "M", "of --lengths (default: Qwen3.6-35B-A3B)", NULL, false},
    {"cp", 0, "LIST", "of --lengths (default: 2)", NULL, false},
    {"ep", 0, "LIST", "of --lengths, those that divide (default: 1)", NULL,
     false},
    {"lora-rank", 0, "LIST", "of --lengths (default: 8)", NULL, false},
    {"layers", 0, "LIST", "of --lengths (default: all)", NULL, false},
    {"waves", 0, "N", "of --lengths (default: 2)", NULL, false},
    {"unsafe", 0, NULL, "let scenarios use io and os", NULL, false},
    {NULL, 0, NULL, NULL, NULL, false}
};

const char *const run_examples[] = {
    "peakproof run lua/scenarios/pr-accuracy.lua",
    "peakproof run --out out/mine my.lua -- tokens=32768",
    "peakproof run --lengths 8k..64k:x2 --cp 2,4 --ep 1,2",
    "peakproof run --totals -j 2 lua/scenarios/sweep.lua -- count=1000",
    "peakproof run -j 2 --only 'random-*' lua/scenarios/pr-accuracy.lua",
    "peakproof run --device cpu lua/scenarios/tiny-train.lua -- waves=10",
    NULL
};
