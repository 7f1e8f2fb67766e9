/*
** api.h - what a scenario can call: batch.*, csv.rows, estimator,
** require.
** Inside src/script.
*/
#ifndef SCRIPT_API_H
#define SCRIPT_API_H

#include <lua.h>

#include "batch/batch.h"
#include "script/decl.h"
#include "script/scenario.h"

/* A batch as a Lua value: userdata that owns what is below. */
struct api_batch {
    enum batch_kind kind;
    struct batch batch;         /* not for BATCH_LAYOUT */
    int64_t cp;                 /* BATCH_LAYOUT: ranks, else 0 */
    struct rank_plan *layout;   /* [cp] rows and sizes of stages */
    int64_t tokens;
    int64_t routed_rows;        /* -1: not said */
    uint64_t held;              /* bytes counted with script_hold */
};

/* The largest number of rows or tokens a declaration may name. */
#define API_MAX_ROWS (INT64_C(1) << 40)
#define API_MAX_SEGMENTS (INT64_C(1) << 20)

/* [-0, +0, raises] Makes the API and runs the built-in Lua file (open.c). */
void api_open(lua_State *L);
/* [-0, +0, raises] math.random begins anew, as when the script was loaded. */
void api_reseed(lua_State *L);

/*
** Functions a script calls, each with one table of named keys:
** batch.layout{attention_rows, gdn_rows, stages, routed_rows}: recorded rows
**   and stages (layout.c).
** batch.lengths{n, n, ...}: independent sequences.
** batch.random{count, length, seed}: count independent sequences, each of
**   length tokens, or of a length drawn evenly from {least, most}.
** batch.tree{file} or {parents, lengths}: all of a prefix tree; segments
**   count from 0, a root's parent is -1.
** batch.sequences{file, tree, select}: recorded sequences in one wave, as
**   the tree of the prefixes they share (sequences.c). select is a number, a
**   list, or a text of ranges "0-19,25"; all without it.
** batch.pack{file, tree, select, tokens}: a list of such batches, filled in
**   the order of select up to tokens packed tokens each.
** csv.rows{file}: the rows of a CSV file, each a table of its cells by
**   column, the list of the lines at which they begin, and the path.
** estimator{name, price}: see scenario.h (estimator.c).
*/
int api_layout(lua_State *L);
int api_lengths(lua_State *L);
int api_random(lua_State *L);
int api_tree(lua_State *L);
int api_sequences(lua_State *L);
int api_pack(lua_State *L);
int api_estimator(lua_State *L);
void api_open_sequences(lua_State *L);
void api_open_csv(lua_State *L);

/* [-0, +0, raises] The types of the values below. */
void api_open_types(lua_State *L);

/* [-0, +1, raises] Pushes an empty batch. */
struct api_batch *api_new_batch(lua_State *L, enum batch_kind kind);
/* The batch at index; NULL if it is something else. */
struct api_batch *api_to_batch(lua_State *L, int index);
/* [-0, +0, raises] Counts what the batch holds, and its building as work. */
void api_hold_batch(lua_State *L, struct api_batch *b);
void api_free_layout(struct rank_plan *layout, int64_t cp);

/* [raises] Turns an error of C code called for d into a Lua error. */
void api_check(const struct decl *d, const char *key, int rc,
               const struct err *e);
/* [-0, +1, raises] An array of n integers that Lua frees. */
int64_t *api_ints(lua_State *L, int64_t n);
/* [-0, +1, raises] The list at index as such an array, all in [lo, hi]. */
int64_t *api_list(const struct decl *d, const char *key, int index,
                  int64_t lo, int64_t hi, int64_t *n);
/* [-0, +1, raises] A pointer that Lua gives to free(); NULL at first. */
void **api_box(lua_State *L);
/* [-0, +(0|1), raises] The path of the data file that a key names; NULL and
** nothing pushed when the key is absent. */
const char *api_file(const struct decl *d, const char *key);
/* [-0, +0, raises] A metatable that scripts can neither see nor change. */
void api_new_type(lua_State *L, const char *name, lua_CFunction gc,
                  lua_CFunction index);

/* lua/peakproof.lua, put into the program when it is built. */
extern const char api_prelude[];
extern const size_t api_prelude_len;

#endif
