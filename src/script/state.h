/*
** state.h - a Lua state with limits, for files that are declarations.
**
** A script may be wrong or hostile; it cannot make the program hang, grow or
** crash. Memory is counted in lua_Alloc, instructions in a count hook, and
** library functions whose work the hook cannot see are charged for it
** (guard.c). Reaching a limit is final ("dead"): from then on every
** instruction raises an error, so no pcall survives it. There is no
** coroutine library (each coroutine would carry a hook of its own) and no
** __gc in Lua (finalizers run without hooks).
**
** Everything that calls Lua goes through script_call or script_protect, so
** no Lua error ever leaves this module; C code that runs inside may raise,
** and therefore keeps what it allocates reachable from its struct.
** Inside src/script.
*/
#ifndef SCRIPT_STATE_H
#define SCRIPT_STATE_H

#include <lauxlib.h>
#include <lua.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "script/scenario.h"
#include "script/source.h"

#define SCRIPT_PRELUDE "=peakproof" /* chunk name of the built-in Lua file */

enum script_death {
    ALIVE, DEAD_MEMORY, DEAD_INSTRUCTIONS, DEAD_TIME, DEAD_INTERRUPTED,
    DEAD_HOST               /* the host refused memory */
};

struct script {
    lua_State *L;
    char *path;             /* as the user wrote it; "-": standard input */
    char *chunk;            /* its base name: what Lua calls it */
    char *dir;              /* folder of path, "." for none */
    char *data_dir;
    struct buf found;       /* paths of files found, each ended by a NUL */
    struct buf text;        /* of the file that is being compiled */
    struct source source;   /* where keys stand in the loaded files */
    /* memory: Lua's blocks and what C holds for the script */
    uint64_t used, limit;
    const void *refused;    /* block whose growth was refused last */
    size_t refused_bytes;
    /* instructions of the current call */
    uint64_t left, allowance;
    int64_t deadline_ns;    /* of this thread's processor time */
    int seconds;            /* of it, a call */
    int step;               /* instructions between two looks */
    const atomic_int *interrupt;    /* may be NULL */
    enum script_death dead;
    char where[128];        /* "file:line: " at which it died, or "" */
    bool host_refused;      /* malloc failed, whatever became of it */
    bool unsafe;
    bool closed;            /* loaded: it may open no further files */
};

/* Makes the state, in which open, which may raise, opens libraries and API,
** and reads nothing yet. */
int script_new(const char *path, const char *data_dir,
               const struct scenario_limits *limits, lua_CFunction open,
               struct script **out, struct err *e) MUST_CHECK;
void script_free(struct script *s);
struct script *script_of(lua_State *L);

/* Calls the function below n arguments, as lua_pcall; new allowance. The
** error names file and line first and then, indented, a traceback. */
int script_call(struct script *s, int n, int results, struct err *e)
    MUST_CHECK;
/* Runs C code that may raise, on a stack of its own: f sees ctx as light
** userdata at index 1 and what was on the stack above it. */
int script_protect(struct script *s, lua_CFunction f, void *ctx, int n,
                   int results, struct err *e) MUST_CHECK;

/* [-0, +0, raises] Charges work that the hook does not see, in instructions. */
void script_charge(lua_State *L, uint64_t work);
/* [-0, +0, raises] Counts bytes that C holds for the script. */
void script_hold(lua_State *L, uint64_t bytes);
void script_release(lua_State *L, uint64_t bytes);
/* [raises] The host refused memory. */
_Noreturn void script_nomem(lua_State *L);
/* [-0, +0] Line and file of the innermost running Lua function that is not
** the API's own; 0 and "" where there is none. */
int script_line(lua_State *L, char file[LUA_IDSIZE]);
/* [-0, +0] strdup that raises instead of failing. *out is freed first. */
void script_dup(lua_State *L, char **out, const char *text);

#endif
