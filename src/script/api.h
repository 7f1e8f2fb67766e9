/*
** api.h - what a scenario can call: batch.*, estimator, require.
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
#define API_MAX_RANKS 64
#define API_MAX_SEGMENTS (INT64_C(1) << 20)

/* [-0, +0, raises] Makes the API and runs the built-in Lua file. */
void api_open(lua_State *L);

/* [-0, +1, raises] Pushes an empty batch. */
struct api_batch *api_new_batch(lua_State *L, enum batch_kind kind);
/* The batch at index; NULL if it is something else. */
struct api_batch *api_to_batch(lua_State *L, int index);
/* [-0, +0, raises] Counts what the batch holds, and its building as work. */
void api_hold_batch(lua_State *L, struct api_batch *b);
/* [raises] Turns an error of C code called for d into a Lua error. */
void api_check(const struct decl *d, const char *key, int rc,
               const struct err *e);
void api_free_layout(struct rank_plan *layout, int64_t cp);

/* batch.layout{...}, in layout.c */
int api_layout(lua_State *L);

/* estimator{...}, in estimator.c */
int api_estimator(lua_State *L);

/* lua/peakproof.lua, put into the program when it is built. */
extern const char api_prelude[];
extern const size_t api_prelude_len;

#endif
