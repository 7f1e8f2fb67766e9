/*
** plan_args.h - the options that say what is planned, shared by the commands
** plan and fit: a batch, a model and a parallel shape.
*/
#ifndef BENCH_PLAN_ARGS_H
#define BENCH_PLAN_ARGS_H

#include "bench/command.h"
#include "fit/shape.h"

/* Rows of a command's option table. */
#define PLAN_ARGS_OPTIONS \
    {.name = "lengths", .arg = "A,B,...", \
     .help = "independent sequences of these many tokens"}, \
    {.name = "tree", .arg = "F.csv", \
     .help = "a tree of segments: columns segment, parent, tokens"}, \
    {.name = "sequences", .arg = "F.csv", \
     .help = "recorded sequences: columns tokens and, with a tree, " \
             "leaf_segment; the tree is --tree, or NAME-prefix-tree.csv " \
             "beside NAME-sequences.csv"}, \
    {.name = "select", .arg = "A-B,C", \
     .help = "only these sequences, counted from 0 (default: all)"}, \
    {.name = "cp", .arg = "N", \
     .help = "context-parallel ranks (default: 2)"}, \
    {.name = "ep", .arg = "N", \
     .help = "expert-parallel ranks (default: 1)"}, \
    {.name = "model", .arg = "F.json", \
     .help = "a config.json, or a shipped one by name " \
             "(default: Qwen3.6-35B-A3B.json)"}, \
    {.name = "layers", .arg = "N", \
     .help = "only the model's first layers (default: all)"}, \
    {.name = "profile", .arg = "new|old", .values = plan_args_profiles, \
     .help = "constants of the planner (default: new)"}, \
    {.name = "lora-rank", .arg = "N", \
     .help = "rank of the adapters, 0 for none (default: 8)"}, \
    {.name = "head-rows", .arg = "N", \
     .help = "labelled rows, of which the head takes 512 at a time " \
             "(default: all)"}

extern const char *const plan_args_profiles[];

/* Whether any option of the table was given. */
bool plan_args_given(const struct args *a);
/* The path of a config by its name, or of the default (NULL); *path is
** malloc'ed. As in scenarios, a file here comes before a shipped one, each also
** without its ".json". ERR_INPUT where there is none, with the name that may
** have been meant. */
int plan_args_model(const char *name, char **path, struct err *e) MUST_CHECK;
/* The same as a scenario elsewhere may name it: a shipped one as it stands,
** others by the whole path. ERR_INPUT where there is none. */
int plan_args_model_named(const char *name, char **out, struct err *e)
    MUST_CHECK;
/* The options as a shape; free with shape_free. */
int plan_args_read(const struct args *a, struct shape *out, struct err *e)
    MUST_CHECK;

#endif
